#!/usr/bin/env bash
# The fabric's contract, the pool, pgas and OpenSHMEM over verbs on Soft-RoCE, in a virtual machine;
# OpenSHMEM and a cluster of the pool between two of them; some twenty minutes. Arguments as
# tools/rdma/suite.sh takes them; `shmem` is in both, and `cluster` only between two.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build test rdma
mkdir -p build/rdma/programs
cmake --preset dev >build/rdma-configure.log 2>&1 || {
  cat build/rdma-configure.log >&2
  exit 1
}
cmake --build build/dev --parallel "$(nproc)" --target fabric_contract_libfabric pool_contract pool_over_fabric pgas_processes \
  gfile_pool_contract tanada_store_pool shmem tanada_fabric_plugin tanada_bootstrap_pmix_plugin tanada_command tanada_poold_program
sources=tests/conformance/shmem/programs
for program in put_get nonblocking atomics signals collectives litmus contexts sizes; do
  build/dev/bin/oshcc -std=c11 -D_GNU_SOURCE -O1 -g -I $sources -o build/rdma/programs/$program $sources/$program.c -pthread
done
failed=0
if [ "$*" != cluster ]; then
  tools/rdma/vm.sh -m 3072 -t 3600 "$PWD/tools/rdma/suite.sh" "$@" || failed=1
fi
case " ${*:-cluster} " in
  *" cluster "*) tools/rdma/vm.sh -2 -m 1536 -t 2700 "$PWD/tools/rdma/cluster.sh" || failed=1 ;;
esac
case " ${*:-shmem} " in
  *" shmem "*) tools/rdma/vm.sh -2 -t 2700 "$PWD/tools/rdma/shmem.sh" || failed=1 ;;
esac
exit $failed
