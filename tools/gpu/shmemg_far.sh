#!/usr/bin/env bash
# On a machine with GPUs and the files of tools/gpu/pack_shmemg.sh: measure calls of kernels to PEs
# whose memory the GPU does not map. A host thread carries them out. Two PEs have a GPU each. The
# script takes at most a minute.
# usage: tools/gpu/shmemg_far.sh FOLDER RESULTS [part ...]
# Parts, by default all of them: "stencil" has steps of the stencil by kind of exchange, "causes"
# has possible causes of slow steps, "calls" has each kind of call. Results are printed last. The
# exit status is 1 if a program failed or exceeded its limit.
# PES: number of PEs (2). LIMIT: seconds for each program (5). STEPS: steps of the stencil (50; a
# stream has 4 kernels a step). The faster of two rounds counts.
#
# Paths: "direct" is the reference. With "by_host" (TND_SHMEM_DEVICE_DIRECT=off) the host carries
# out all calls, although the GPUs map one another's memory. With "staged" (TND_PGAS_NODE=none) the
# PEs share no node. The causes, with "staged": each PE is bound to one processor; kernels are
# loaded at their first launch; there are 8 work queues; a stream has more outstanding calls than
# the driver accepts (1024).
# shellcheck disable=SC2046  # words of commands
set -uo pipefail
folder=$(cd "${1:?usage: tools/gpu/shmemg_far.sh FOLDER RESULTS [part ...]}" && pwd)
results=${2:?usage: tools/gpu/shmemg_far.sh FOLDER RESULTS [part ...]}
shift 2
parts=${*:-stencil causes calls}
pes=${PES:-2} limit=${LIMIT:-5} steps=${STEPS:-50}
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TND_PLUGIN_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
[ -e "$TND_CUDA_PLUGIN" ] || export TND_CUDA_PLUGIN=$folder/lib/tanada/libtanada_cuda.so
export SHMEM_DEVICE_SYMMETRIC_SIZE=${SHMEM_DEVICE_SYMMETRIC_SIZE:-256M} TND_SHMEM_DEVICE_TIMEOUT=${TND_SHMEM_DEVICE_TIMEOUT:-${limit}s}
end=${PROGRAM_END-_cuda} # the end of the programs' names; empty: programs of the host executor
direct=(TND_SHMEM_DEVICE_DIRECT=on)
by_host=(TND_SHMEM_DEVICE_DIRECT=off)
staged=(TND_PGAS_NODE=none)
mkdir -p "$results"
failed=0
rows=()
try() { # try NAME ENVIRONMENT... -- [OPTIONS OF oshrun... --] COMMAND...
  local name=$1 environment=() options=() rc start=$EPOCHREALTIME log="$results/$1.log" value
  shift
  while [ "$1" != -- ]; do environment+=("$1") && shift; done
  shift
  if [ "${1#--}" != "$1" ]; then
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
  fi
  env "${environment[@]}" timeout -k 1 "$limit" "$folder/bin/oshrun" --quiet -n "$pes" "${options[@]}" "$@" >"$log" 2>&1
  rc=$?
  [ $rc = 0 ] || failed=1
  value=$(sed -n 's/.*"step_us": \([0-9.]*\).*/\1/p' "$log" | awk '{ printf "%.3f ms a step", $1 / 1000 }')
  case $rc in
    0) ;;
    124 | 137) value="NOT ENDED after $limit s" ;;
    *) value="FAILED ($rc): $(grep -m 1 -E 'tanada|error|wrong|failed|shmem' "$log" | cut -c1-90)" ;;
  esac
  rows+=("$(awk -v name="$name" -v value="${value:-passed}" -v from="$start" -v to="$EPOCHREALTIME" \
    'BEGIN { printf "%-32s %-28s %5.1f s", name, value, to - from }')")
}
stencil() { # stencil EXCHANGE [STEPS]
  echo "$folder/bin/stencil2d$end --rows 256 --columns 256 --check --steps ${2:-$steps} --rounds 2 --exchange $1"
}
[ -z "$end" ] || nvidia-smi -L
for part in $parts; do
  case $part in
    stencil)
      # The output of stencil is split into words.
      for exchange in kernel stream host; do
        try "stencil_${exchange}_direct" "${direct[@]}" -- $(stencil $exchange)
        try "stencil_${exchange}_by_host" "${by_host[@]}" -- $(stencil $exchange)
        try "stencil_${exchange}_staged" "${staged[@]}" -- $(stencil $exchange)
      done
      ;;
    causes)
      try stencil_kernel_bound "${staged[@]}" -- --bind-to core -- $(stencil kernel)
      try stencil_stream_bound "${staged[@]}" -- --bind-to core -- $(stencil stream)
      try stencil_stream_lazy "${staged[@]}" CUDA_MODULE_LOADING=LAZY -- $(stencil stream)
      try stencil_stream_8_queues "${staged[@]}" CUDA_DEVICE_MAX_CONNECTIONS=8 -- $(stencil stream)
      try stencil_stream_far_ahead "${staged[@]}" -- $(stencil stream 400)
      try stencil_kernel_400 "${staged[@]}" -- $(stencil kernel 400)
      ;;
    calls)
      for name in private transfers atomics waits; do
        for way in by_host staged; do
          declare -n settings=$way
          words=
          [ $name != waits ] || words=200 # rounds: signals, fences, both
          try "${name}_$way" "${settings[@]}" -- "$folder/bin/shmemg_$name$end" $words
        done
      done
      ;;
  esac
done
for log in "$results"/*.log; do
  [ "$(basename "$log")" = summary.log ] || ! grep -qE 'tanada (error|warning)|wrong|in a kernel' "$log" && continue
  echo "---- $(basename "$log")"
  grep -E 'tanada (error|warning)|wrong|in a kernel' "$log" | head -n 3 | cut -c1-200
done
printf '%s\n' "${rows[@]}"
exit $failed
