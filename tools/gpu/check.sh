#!/usr/bin/env bash
# On a machine with a GPU: run the packed tests and benchmarks. usage: tools/gpu/check.sh FOLDER RESULTS [what ...]
# what: contract bench pool fabric sanitizer examples snapshots stress; all but fabric and the last two by default. Results
# last; exit status 1 if a test failed.
# STRINGS: options of string_match for its row in the benchmark, such as "--dictionary FILE --text FILE".
# STRESS_SECONDS, STRESS_CHECKED_SECONDS, STRESS_SEED: how long the random operations run, plain (0: not at all) and under
# compute-sanitizer, and from which seed.
set -uo pipefail
folder=$(cd "${1:?}" && pwd)
results=${2:?}
shift 2
what=${*:-contract bench pool examples sanitizer}
export LD_LIBRARY_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
[ -e "$TND_CUDA_PLUGIN" ] || export TND_CUDA_PLUGIN=$folder/lib/tanada/libtanada_cuda.so
mkdir -p "$results"
failed=0
summary=()
step() { # step NAME LIMIT_S COMMAND...
  local name=$1 limit=$2 start=$SECONDS rc
  shift 2
  timeout "$limit" "$@" >"$results/$name.log" 2>&1
  rc=$?
  [ $rc = 0 ] || failed=1
  summary+=("$name: exit $rc after $((SECONDS - start)) s")
}
nvidia-smi -L
for part in $what; do
  case $part in
    contract)
      for program in "$folder"/bin/*_contract_cuda; do
        case $program in */gfile_pool_contract_cuda) continue ;; esac # the part `pool`
        step "$(basename "$program")" 150 "$program"
      done
      ;;
    bench)
      for program in "$folder"/bin/bench_*_cuda; do
        name=$(basename "$program" _cuda)
        # The parts `pool` and `snapshots`, and shmemg_check.sh's.
        case $name in bench_pool_device | bench_pool_mapped | bench_fdtd | bench_device_queue) continue ;; esac
        step "$name" 420 "$program" --json "$results/${name#bench_}.json" ${STRINGS:+--strings "$STRINGS"}
      done
      ;;
    pool)
      step pool_device 200 "$folder/bin/bench_pool_device_cuda" --json "$results/pool_device.json"
      step gfile_pool 150 "$folder/bin/gfile_pool_contract_cuda"
      step pool_mapped 150 "$folder/bin/bench_pool_mapped_cuda" --json "$results/pool_mapped.json"
      # Beside memcpy and raw TCP, and rivals that this machine has.
      step pool 300 "$folder/bin/bench_pool" --json "$results/pool.json"
      ;;
    # Needs libfabric.so.1 on the machine.
    fabric) TND_PLUGIN_PATH=$folder/lib step fabric_device 200 "$folder/bin/fabric_device_cuda" ;;
    snapshots) step fdtd_snapshots 520 tools/gpu/fdtd.sh "$folder" "$results" ;;
    sanitizer)
      # Of memory registered while a kernel runs, as mapped files' is, the sanitizer's kernels know nothing.
      for tool in memcheck racecheck; do
        TND_GFILE_MAPPING=off step "$tool" 240 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$folder/bin/gfile_contract_cuda" \
          --gtest_filter='-sizes*/6:gfile_mapped*'
      done
      ;;
    stress)
      scratch=$(mktemp -d)
      memory=$(mktemp -d -p /dev/shm)
      roots=(--root "$scratch/" --root "$memory/" --root mem://stress/)
      plain=${STRESS_SECONDS:-120} checked=${STRESS_CHECKED_SECONDS:-60} seed=${STRESS_SEED:-2}
      [ "$plain" = 0 ] ||
        step stress $((plain + 60)) "$folder/bin/gfile_stress_cuda" --seconds "$plain" --seed "$seed" "${roots[@]}"
      TND_GFILE_MAPPING=off step stress_memcheck $((checked + 120)) compute-sanitizer --tool memcheck --report-api-errors no \
        --error-exitcode 9 "$folder/bin/gfile_stress_cuda" --seconds "$checked" --seed "$seed" --blocks 16 --slack 30000 "${roots[@]}"
      rm -rf "$scratch" "$memory"
      ;;
    examples)
      TND_TEST_ALL=1 TND_BUILD_DIR=$folder step examples 200 python3 -m pytest -q -p no:cacheprovider tests/e2e/examples
      scratch=$(mktemp -d)
      step fdtd 120 "$folder/bin/fdtd_cuda" --size 256 --output "$results" --store "file://$scratch"
      rm -rf "$scratch"
      ;;
  esac
done
for log in "$results"/*.log; do
  echo "---- $(basename "$log")"
  tail -n 14 "$log" | cut -c1-200
done
printf '%s\n' "${summary[@]}"
exit $failed
