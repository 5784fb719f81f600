#!/usr/bin/env bash
# In the guest: OpenSHMEM programs over the verbs of Soft-RoCE, nothing by shared memory; by the second guest, too, where there
# is one (vm.sh -2), half of the PEs in each. tools/rdma/test.sh has compiled the programs.
# usage: tools/rdma/shmem.sh [-n "PES ..."] [PROGRAM ...]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
pe_counts="2 4"
while getopts n: option; do
  case $option in
    n) pe_counts=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
# What translated code finishes in a minute or so.
declare -A few=([atomics]=5 [collectives]="4096 40" [litmus]=40 [nonblocking]="300 65536 200" [signals]="100000 3" [sizes]=70000)
[ $# -gt 0 ] || set -- put_get nonblocking atomics signals collectives litmus
guests=$(sed -n 's/.*guests=\([0-9]*\).*/\1/p' /proc/cmdline)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=/tmp FI_PROVIDER=verbs,ofi_rxm
export TND_PGAS_NODE=none TND_PGAS_FABRIC="verbs;ofi_rxm" TND_PGAS_INTERFACE=${TND_PGAS_INTERFACE-eth0}
export TND_PGAS_TIMEOUT=${TND_PGAS_TIMEOUT:-120s} TND_LOG=${TND_LOG:-warn} TND_PLUGIN_PATH=$PWD/build/dev/lib
failed=0
for program in "$@"; do
  for count in $pe_counts; do
    launch=(build/dev/bin/oshrun --quiet --launcher mpirun -n "$count")
    if [ "$guests" = 2 ]; then
      each=$(((count + 1) / 2))
      launch+=(--host "10.77.0.1:$each,10.77.0.2:$each" --map-by node --mca plm_rsh_agent "$PWD/tools/rdma/agent.sh")
    fi
    began=$SECONDS
    # shellcheck disable=SC2086 # words
    timeout -k 5 400 "${launch[@]}" "build/rdma/programs/$program" ${few[$program]-} ||
      { echo "rdma: $program with $count PEs failed: $?" && failed=1; }
    echo "== $program, $count PEs in $guests guests: $((SECONDS - began)) s"
  done
done
exit $failed
