#!/usr/bin/env bash
# On a machine with a GPU that has what tools/gpu/pack.sh gathered: memory of the device that processes share, and host code's operations on
# it: the contract, and what they cost. usage: tools/gpu/shmemg_check.sh FOLDER RESULTS [what ...]
# what: contract bench sanitizer; the first two by default. Results last; exit status 1 if a test failed.
# GTEST_FILTER: of the contract. BENCH_OPTIONS: of bench_device_queue_cuda, such as "--part latency".
set -uo pipefail
folder=$(cd "${1:?usage: tools/gpu/shmemg_check.sh FOLDER RESULTS [what ...]}" && pwd)
results=${2:?usage: tools/gpu/shmemg_check.sh FOLDER RESULTS [what ...]}
shift 2
what=${*:-contract bench}
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
mkdir -p "$results"
failed=0
summary=()
step() { # step NAME LIMIT_S COMMAND...
  local name=$1 limit=$2 start=$SECONDS rc
  shift 2
  timeout -k 2 "$limit" "$@" >"$results/$name.log" 2>&1
  rc=$?
  [ $rc = 0 ] || failed=1
  summary+=("$name: exit $rc after $((SECONDS - start)) s")
}
nvidia-smi -L
for part in $what; do
  case $part in
    contract) step gpu_contract 90 "$folder/bin/gpu_contract_cuda" ;;
    bench)
      # shellcheck disable=SC2086  # the options are words
      step device_queue 100 "$folder/bin/bench_device_queue_cuda" --json "$results/device_queue.json" ${BENCH_OPTIONS:-}
      ;;
    sanitizer)
      step memcheck 120 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 "$folder/bin/gpu_contract_cuda" \
        --gtest_filter='*gpu_queue_contract*:-*full_device*:*deadline*:*64_MiB*:*many_queues*'
      ;;
  esac
done
for log in "$results"/*.log; do
  echo "---- $(basename "$log")"
  tail -n "${TAIL_LINES:-60}" "$log" | cut -c1-170
done
printf '%s\n' "${summary[@]}"
exit $failed
