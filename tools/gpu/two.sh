#!/usr/bin/env bash
# On a machine with two GPUs and the files of tools/gpu/pack_multi.sh: measure what takes two GPUs,
# in nine minutes at most. The most valuable parts come first.
# usage: tools/gpu/two.sh FOLDER RESULTS [part ...]
# Parts: shmemg (bench/shmemg/shmemg.py), pairs (transfers between PEs that act as nodes), gfile
# (one file to two GPUs), comex (in memory of GPUs), tests (programs with kernels), perftests
# (NVIDIA's of NVSHMEM, where FOLDER/perftests has them); all but the last by default.
# Files come as RESULTS/results.tar.gz. A table is printed last. The exit status is 1 if a part
# failed.
# TIME: seconds of all parts (540). PROGRAM_END: the end of the programs' names (_cuda); if it is
# empty, programs of the host executor run in small sizes, to try this script without GPUs.
set -uo pipefail
usage="usage: tools/gpu/two.sh FOLDER RESULTS [part ...]"
folder=$(cd "${1:?$usage}" && pwd)
results=$(mkdir -p "${2:?$usage}" && cd "$2" && pwd)
cd "$(dirname "$0")/../.." || exit
shift 2
parts=${*:-shmemg pairs gfile comex tests}
limit=${TIME:-540} pes=2 end=${PROGRAM_END-_cuda}
. tools/gpu/parts.sh
. tools/gpu/multi.sh
for name in $parts; do
  case $name in
    shmemg) shmemg_part shmemg 320 --rows kernel,stream,programs,host,queue --rounds 2 ;;
    pairs) shmemg_part shmemg_pairs 70 --rows pairs --rounds 2 ;;
    gfile) gfile_part 100 ;;
    comex) STEP_LIMIT=15 part comex 60 tools/gpu/comex_device.sh "$folder" ;;
    tests) part tests 60 kernel_tests 12 ;;
    perftests) perftests_part 300 ;;
    *) echo "two.sh: no part is called $name" >&2 ;;
  esac
done
finish
