#!/usr/bin/env bash
# The measurement of the paper behind the pool: copies to and from the memory of another node, by
# size, over RDMA, beside NFS of the same node. It runs in two virtual machines with software verbs,
# so only ratios are comparable. Writes pool_link_guest.json, or with -f fdtd_link_guest.json:
# 2,000 steps of FDTD with snapshots in the pool, by NFS, and without.
# usage: tools/rdma/bench.sh [-f] [-s SIZE_MAX] [-o FOLDER]
#   -s SIZE    the largest object, 256MiB unless given
#   -o FOLDER  where the JSON goes, docs/measurements unless given
set -euo pipefail
cd "$(dirname "$0")/../.."
size=256MiB results=docs/measurements program=link
while getopts fs:o: option; do
  case $option in
    f) program=fdtd ;;
    s) size=$OPTARG ;;
    o) results=$OPTARG ;;
    *) exit 2 ;;
  esac
done
tools/setup.sh build test rdma
mkdir -p build/rdma
cmake --preset dev -DTANADA_TESTED_ONLY=OFF >build/rdma-configure.log 2>&1 || {
  cat build/rdma-configure.log >&2
  exit 1
}
cmake --build build/dev --parallel "$(nproc)" \
  --target tanada_fabric_plugin tanada_command tanada_poold_program bench_pool bench_fdtd
words=("$size")
[ $program = link ] || words=()
folder=$(mktemp -d "$PWD/build/rdma/results.XXXXXX") # the guest has a /tmp of its own
trap 'rm -rf "$folder"' EXIT
tools/rdma/vm.sh -2 -m 3072 -t 7200 -k nfs=1 -w "$folder" \
  "$PWD/tools/rdma/$program.sh" "${words[@]}" "$folder"
cp "$folder"/*_link_guest.json "$results/"
