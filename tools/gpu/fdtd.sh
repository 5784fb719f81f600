#!/usr/bin/env bash
# On a machine with a GPU: measure the cost of snapshots in 2,000 steps of FDTD, with the programs
# that tools/gpu/pack.sh packed. Prints the table and writes RESULTS/fdtd.json.
# usage: tools/gpu/fdtd.sh FOLDER RESULTS [options of bench_fdtd ...]
# tools/bench_fdtd.sh describes FDTD_SIZE, FDTD_STEPS and FDTD_FOLDER.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(cd "${1:?usage: tools/gpu/fdtd.sh FOLDER RESULTS [options ...]}" && pwd)
results=$(mkdir -p "${2:?}" && cd "$2" && pwd)
shift 2
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
[ -e "$TND_CUDA_PLUGIN" ] || export TND_CUDA_PLUGIN=$folder/lib/tanada/libtanada_cuda.so
nvidia-smi -L
timeout 500 tools/bench_fdtd.sh "$folder/bin/bench_fdtd_cuda" --json "$results/fdtd.json" "$@"
