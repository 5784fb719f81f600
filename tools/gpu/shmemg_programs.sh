#!/usr/bin/env bash
# On a machine with GPUs and what tools/gpu/pack_shmemg.sh gathered: the stencil and the lattice Boltzmann fluid, checked.
# usage: tools/gpu/shmemg_programs.sh FOLDER RESULTS    PES: how many (2)
set -uo pipefail
folder=$(cd "${1:?usage: tools/gpu/shmemg_programs.sh FOLDER RESULTS}" && pwd)
results=${2:?usage: tools/gpu/shmemg_programs.sh FOLDER RESULTS}
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TND_PLUGIN_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
mkdir -p "$results"
failed=0
check() { # check NAME COMMAND...
  local name=$1
  shift
  if timeout -k 2 60 "$folder/bin/oshrun" --quiet -n "${PES:-2}" "$@" >"$results/$name.log" 2>&1; then
    echo "$name: passed"
  else
    failed=1
    echo "$name: FAILED"
    tail -5 "$results/$name.log"
  fi
}
for exchange in kernel stream host; do
  check "stencil_$exchange" "$folder/bin/stencil2d_cuda" --rows 96 --columns 64 --steps 50 --check --exchange $exchange
  check "lbm_$exchange" "$folder/bin/lbm_cuda" --check --exchange $exchange
done
exit $failed
