#!/usr/bin/env bash
# On a machine with a GPU: gfile's rows of small files and of default settings, then its contract.
# usage: tools/gpu/gfile.sh FOLDER RESULTS [part of bench_gfile ...]; FOLDER is what tools/gpu/pack.sh made. Results last.
# GTEST_FILTER names the contract's tests to run.
set -uo pipefail
folder=$(cd "${1:?}" && pwd)
results=${2:?}
shift 2
parts=${*:-opens defaults}
export LD_LIBRARY_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
mkdir -p "$results"
failed=0
nvidia-smi -L
nproc
lscpu | grep -E 'Model name|L3'
ulimit -n
for part in $parts; do
  timeout 150 "$folder/bin/bench_gfile_cuda" --only "$part" --json "$results/gfile_$part.json" >"$results/gfile_$part.log" 2>&1 || failed=1
done
timeout 150 "$folder/bin/gfile_contract_cuda" >"$results/gfile_contract.log" 2>&1 || failed=1
grep -E '^\[  (FAILED|PASSED|SKIPPED)' "$results/gfile_contract.log" | tail -n 20
grep -E 'Failure' -A 8 "$results/gfile_contract.log" | head -n 80
for part in $parts; do tail -n 20 "$results/gfile_$part.log" | cut -c1-220; done
exit $failed
