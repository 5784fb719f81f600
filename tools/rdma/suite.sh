#!/usr/bin/env bash
# In the guest: the fabric's contract, the pool, pgas and OpenSHMEM over the verbs of Soft-RoCE. Names of programs, or all.
# usage: tools/rdma/suite.sh [PROGRAM ...] [-- ARGUMENTS OF THE PROGRAMS]
#   PROGRAM    fabric_contract_libfabric, pool_contract, pool_over_fabric, pgas_processes,
#              gfile_pool_contract or shmem
set -uo pipefail
cd "$(dirname "$0")/../../build/dev" || exit
provider="verbs;ofi_rxm" node=10.77.0.1
export TND_TEST_FABRIC_PROVIDER=$provider TND_TEST_FABRIC_NODE=$node TND_PLUGIN_PATH=$PWD/lib TND_LOG=${TND_LOG:-off}
export TND_TEST_SIZE_MAX_MIB=${TND_TEST_SIZE_MAX_MIB:-256}
programs=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do programs+=("$1") && shift; done
[ $# -eq 0 ] || shift
[ ${#programs[@]} -gt 0 ] || programs=(
  fabric_contract_libfabric pool_contract pool_over_fabric pgas_processes gfile_pool_contract shmem)
failed=0
for program in "${programs[@]}"; do
  case $program in cluster | dax) continue ;; esac # need guests of their own
  own=()
  case $program in
    fabric_contract_libfabric) own=(--provider "$provider" --node "$node") ;;
    pool_contract) own=(--gtest_filter='*fabric*') ;;
    gfile_pool_contract) own=(--gtest_filter='*far_pool*') ;;
  esac
  echo "== $program"
  if [ "$program" = shmem ]; then
    ../../tools/rdma/shmem.sh "$@" || failed=1
    continue
  fi
  "bin/$program" "${own[@]}" "$@" || failed=1
done
exit $failed
