#!/usr/bin/env bash
# On a machine with GPUs and the files of tools/gpu/pack_shmemg.sh: run the programs whose kernels
# call OpenSHMEM, and the benchmark, with 2 PEs on all GPUs.
# usage: tools/gpu/shmemg_kernels.sh FOLDER RESULTS [part ...]
# Parts: tests by_host staged litmus loss sanitizer bench nvshmem; by default all except staged and
# sanitizer. Results are printed last. The exit status is 1 if a test failed.
# PES: number of PEs (2). ROUNDS: rounds of the litmus tests (1000000; on a stream a hundredth of
# them).
# SIZE_MAX: bytes of the largest put (536870912). NVSHMEM_LIB: the folder of libnvshmem_host.so.3,
# by default searched for.
set -uo pipefail
folder=$(cd "${1:?usage: tools/gpu/shmemg_kernels.sh FOLDER RESULTS [part ...]}" && pwd)
results=${2:?usage: tools/gpu/shmemg_kernels.sh FOLDER RESULTS [part ...]}
shift 2
parts=${*:-tests by_host litmus loss bench nvshmem}
pes=${PES:-2} rounds=${ROUNDS:-1000000} size_max=${SIZE_MAX:-536870912}
nvshmem=${NVSHMEM_LIB:-$(dirname "$(find / -xdev -name 'libnvshmem_host.so.3' -print -quit 2>/dev/null || true)")}
export LD_LIBRARY_PATH=$folder/lib:$nvshmem${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TND_LOG=${TND_LOG:-info} TND_PLUGIN_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so SHMEM_DEVICE_SYMMETRIC_SIZE=${SHMEM_DEVICE_SYMMETRIC_SIZE:-2G}
[ -e "$TND_CUDA_PLUGIN" ] || export TND_CUDA_PLUGIN=$folder/lib/tanada/libtanada_cuda.so
mkdir -p "$results"
failed=0
summary=()
step() { # step NAME LIMIT_S EXPECTED_STATUS(0 or fails) COMMAND...
  local name=$1 limit=$2 expected=$3 start=$SECONDS rc
  shift 3
  timeout -k 5 "$limit" "$@" >"$results/$name.log" 2>&1
  rc=$?
  case $expected in
    0) [ $rc = 0 ] || failed=1 ;;
    fails) { [ $rc != 0 ] && [ $rc != 124 ] && [ $((SECONDS - start)) -lt "$limit" ]; } || failed=1 ;; # 137: a PE was killed
  esac
  summary+=("$name: exit $rc after $((SECONDS - start)) s")
}
run=("$folder/bin/oshrun" -n "$pes")
nvidia-smi -L
nvidia-smi topo -m 2>/dev/null | head -8
for part in $parts; do
  case $part in
    tests)
      for name in transfers private atomics waits collectives teams stream_order streams; do
        step "$name" 120 0 "${run[@]}" "$folder/bin/shmemg_${name}_cuda"
      done
      ;;
    by_host) # as where devices do not map one another's memory
      for name in transfers private atomics waits collectives teams; do
        TND_SHMEM_DEVICE_DIRECT=off step "${name}_by_host" 120 0 "${run[@]}" "$folder/bin/shmemg_${name}_cuda"
      done
      TND_SHMEM_DEVICE_DIRECT=off step streams_by_host 120 0 "${run[@]}" "$folder/bin/shmemg_streams_cuda" few
      ;;
    staged) # as between nodes, where the fabric does not support device memory
      for name in transfers atomics waits "streams few"; do
        read -ra words <<<"$name"
        TND_PGAS_NODE=none TND_PGAS_DEVICE=staged step "${words[0]}_staged" 120 0 "${run[@]}" "$folder/bin/shmemg_${words[0]}_cuda" "${words[@]:1}"
      done
      ;;
    litmus)
      step litmus 300 0 "${run[@]}" "$folder/bin/shmemg_waits_cuda" "$rounds"
      step litmus_stream 300 0 "${run[@]}" "$folder/bin/shmemg_stream_order_cuda" $((rounds / 100))
      ;;
    loss)
      for way in kill "kill sync" "kill stream" range pe team "stream team" "stream root" "stream range"; do
        step "loss_${way// /_}" 60 fails "${run[@]}" "$folder/bin/shmemg_loss_cuda" "$way"
        grep -q 'as expected' "$results/loss_${way// /_}.log" || failed=1
      done
      TND_SHMEM_DEVICE_TIMEOUT=500ms step loss_late 60 fails "${run[@]}" "$folder/bin/shmemg_loss_cuda" late
      step after_loss 60 0 "${run[@]}" "$folder/bin/shmemg_atomics_cuda"
      ;;
    sanitizer)
      for tool in memcheck racecheck; do
        for name in transfers atomics collectives "streams few"; do
          read -ra words <<<"$name"
          step "${tool}_${words[0]}" 280 0 "${run[@]}" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
            "$folder/bin/shmemg_${words[0]}_cuda" "${words[@]:1}"
        done
      done
      ;;
    bench) step bench 300 0 "${run[@]}" "$folder/bin/bench_shmemg_kernel_cuda" --size-max "$size_max" ;;
    nvshmem)
      [ -e "$folder/bin/bench_shmemg_kernel_nvshmem" ] || continue
      shared=$(mktemp -d)
      for ((rank = 1; rank < pes; rank++)); do
        BENCH_RANK=$rank BENCH_COUNT=$pes BENCH_FILE=$shared/id NVSHMEM_SYMMETRIC_SIZE=2G timeout -k 5 300 \
          "$folder/bin/bench_shmemg_kernel_nvshmem" --size-max "$size_max" >"$results/nvshmem_$rank.log" 2>&1 &
      done
      BENCH_RANK=0 BENCH_COUNT=$pes BENCH_FILE=$shared/id NVSHMEM_SYMMETRIC_SIZE=2G step nvshmem 300 0 \
        "$folder/bin/bench_shmemg_kernel_nvshmem" --size-max "$size_max"
      wait
      rm -rf "$shared"
      ;;
  esac
done
for log in "$results"/*.log; do
  case $log in */bench.log | */nvshmem.log) continue ;; esac
  echo "---- $(basename "$log")"
  tail -n 6 "$log" | cut -c1-200
done
if [ -s "$results/bench.log" ]; then
  echo "---- this library, and NVSHMEM where it was measured"
  awk 'FILENAME == ARGV[1] { if (NF == 3) theirs[$1] = $2; next } NF == 3 { print $1, $2, ($1 in theirs ? theirs[$1] : "-"), $3 }' \
    "$([ -s "$results/nvshmem.log" ] && echo "$results/nvshmem.log" || echo /dev/null)" "$results/bench.log"
fi
printf '%s\n' "${summary[@]}"
exit $failed
