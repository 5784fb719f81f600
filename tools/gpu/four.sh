#!/usr/bin/env bash
# On a machine with four GPUs and the files of tools/gpu/pack_multi.sh: measure what takes four
# GPUs, in nine minutes at most. The most valuable parts come first.
# usage: tools/gpu/four.sh FOLDER RESULTS [part ...]
# Parts, all by default: scaling (stencil2d and lbm on 1, 2 and 4 GPUs), collectives (in kernels and
# on streams), fdtd (snapshots to a pool and to files), gfile (one file to all GPUs), tests
# (contract, programs with kernels, litmus), nodes (four PEs that act as two nodes), gpu_pairs
# (rows between all pairs).
# Files come as RESULTS/results.tar.gz. A table is printed last. The exit status is 1 if a part
# failed.
# TIME: seconds of all parts (540). PROGRAM_END: the end of the programs' names (_cuda); if it is
# empty, programs of the host executor run in small sizes, to try this script without GPUs.
set -uo pipefail
usage="usage: tools/gpu/four.sh FOLDER RESULTS [part ...]"
folder=$(cd "${1:?$usage}" && pwd)
results=$(mkdir -p "${2:?$usage}" && cd "$2" && pwd)
cd "$(dirname "$0")/../.." || exit
shift 2
parts=${*:-scaling collectives fdtd gfile tests nodes gpu_pairs}
limit=${TIME:-540} pes=4 end=${PROGRAM_END-_cuda} rounds=${ROUNDS:-200000}
. tools/gpu/parts.sh
. tools/gpu/multi.sh
for name in $parts; do
  case $name in
    scaling) shmemg_part shmemg_scaling 150 --rows scaling --exchanges kernel --rounds 2 ;;
    collectives)
      shmemg_part shmemg_collectives 90 --rows stream,kernel --size-max 268435456 --rounds 1
      ;;
    fdtd) fdtd_part 80 ;;
    gfile) gfile_part 70 ;;
    tests)
      [ -z "$end" ] || part gpu_contract 30 "$folder/bin/gpu_contract_cuda"
      part tests 50 kernel_tests 10
      part litmus 30 litmus "$rounds"
      ;;
    nodes)
      shmemg_part shmemg_nodes 70 --nodes 2 --rows programs,stream --size-max 16777216 \
        --exchanges kernel,host --rounds 1
      ;;
    gpu_pairs) shmemg_part shmemg_gpu_pairs 100 --rows gpu_pairs --rounds 1 ;;
    *) echo "four.sh: no part is called $name" >&2 ;;
  esac
done
finish
