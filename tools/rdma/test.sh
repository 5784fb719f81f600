#!/usr/bin/env bash
# The fabric's contract, the pool, pgas and OpenSHMEM over verbs on Soft-RoCE, in a virtual machine;
# OpenSHMEM and a cluster of the pool between two of them; pools in persistent memory; some twenty
# minutes. Arguments as tools/rdma/suite.sh takes them; `shmem` is in both, `cluster` only between
# two, and `dax` in a guest with an NVDIMM, without RDMA.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build test rdma
mkdir -p build/rdma/programs
cmake --preset dev >build/rdma-configure.log 2>&1 || {
  cat build/rdma-configure.log >&2
  exit 1
}
cmake --build build/dev --parallel "$(nproc)" --target fabric_contract_libfabric pool_contract pool_over_fabric pgas_processes \
  gfile_pool_contract tanada_store_pool shmem tanada_fabric_plugin tanada_bootstrap_pmix_plugin \
  tanada_command tanada_poold_program
sources=tests/conformance/shmem/programs
for program in put_get nonblocking atomics signals collectives litmus contexts sizes; do
  build/dev/bin/oshcc -std=c11 -D_GNU_SOURCE -O1 -g -I $sources -o build/rdma/programs/$program $sources/$program.c -pthread
done
failed=0
# Whether only parts were asked for that have guests of their own.
only_own() {
  [ $# -gt 0 ] || return
  local part
  for part in "$@"; do [ "$part" = cluster ] || [ "$part" = dax ] || return; done
}
if ! only_own "$@"; then
  tools/rdma/vm.sh -m 3072 -t 3600 "$PWD/tools/rdma/suite.sh" "$@" || failed=1
fi
case " ${*:-cluster} " in
  *" cluster "*) tools/rdma/vm.sh -2 -m 1536 -t 2700 "$PWD/tools/rdma/cluster.sh" || failed=1 ;;
esac
case " ${*:-shmem} " in
  *" shmem "*) tools/rdma/vm.sh -2 -t 2700 "$PWD/tools/rdma/shmem.sh" || failed=1 ;;
esac
# Twice the same NVDIMMs: the first guest ends as by a power failure.
test_dax() {
  local folder
  folder=$(mktemp -d "$PWD/build/rdma/dax.XXXXXX")
  truncate -s 256M "$folder/file.image"
  truncate -s 128M "$folder/device.image"
  for phase in put check; do
    tools/rdma/vm.sh -m 1536 -t 1800 -k dax=1 -w "$folder" -n "$folder/file.image" \
      -n "$folder/device.image" "$PWD/tools/rdma/dax.sh" $phase "$folder" || return
  done
  rm -rf "$folder"
}
case " ${*:-dax} " in
  *" dax "*) test_dax || failed=1 ;;
esac
exit $failed
