#!/usr/bin/env bash
# On a machine with a GPU: what snapshots cost 2,000 steps, with the programs that tools/gpu/pack.sh packed.
# usage: tools/gpu/fdtd.sh FOLDER RESULTS [options of bench_fdtd ...]; FDTD_SIZE, FDTD_STEPS, FDTD_FOLDER as
# tools/bench_fdtd.sh says. The table and RESULTS/fdtd.json.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(cd "${1:?usage: tools/gpu/fdtd.sh FOLDER RESULTS [options ...]}" && pwd)
results=$(mkdir -p "${2:?}" && cd "$2" && pwd)
shift 2
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
[ -e "$TND_CUDA_PLUGIN" ] || export TND_CUDA_PLUGIN=$folder/lib/tanada/libtanada_cuda.so
nvidia-smi -L
timeout 500 tools/bench_fdtd.sh "$folder/bin/bench_fdtd_cuda" --json "$results/fdtd.json" "$@"
