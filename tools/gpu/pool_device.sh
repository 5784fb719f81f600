#!/usr/bin/env bash
# On a machine with a GPU: puts and gets of device memory, with the time of each step.
# usage: tools/gpu/pool_device.sh FOLDER RESULTS; FOLDER is what tools/gpu/pack.sh made.
# Results last. Folders FOLDER/lib-NAME hold other builds of the library: the first puts are
# repeated with each of them.
set -uo pipefail
folder=$(cd "${1:?}" && pwd)
results=${2:?usage: tools/gpu/pool_device.sh FOLDER RESULTS}
export LD_LIBRARY_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
[ -e "$TND_CUDA_PLUGIN" ] || export TND_CUDA_PLUGIN=$folder/lib/tanada/libtanada_cuda.so
mkdir -p "$results"
failed=0
nvidia-smi -L
nproc
uname -r
ulimit -n
cat /sys/kernel/mm/transparent_hugepage/shmem_enabled
program=$folder/bin/bench_pool_device_cuda
start=$SECONDS
TND_LOG=debug timeout 100 "$program" --costs on --json "$results/pool_device.json" \
  >"$results/pool_device.log" 2>&1 || failed=1
echo "rows: $((SECONDS - start)) s"
for library in "$folder"/lib-*; do
  [ -d "$library" ] || continue
  name=${library##*/}
  LD_LIBRARY_PATH=$library:$LD_LIBRARY_PATH TND_LOG=debug \
    timeout 50 "$program" --only firsts >"$results/pool_device_$name.log" 2>&1 || failed=1
  echo "$name:"
  grep -E '^  |GPU copy' "$results/pool_device_$name.log" | cut -c1-260
done
echo 'the library as it is:'
grep -E '^  |GPU copy' "$results/pool_device.log" | head -n 60 | cut -c1-260
tail -n 14 "$results/pool_device.log" | cut -c1-220
[ -e "$results/pool_device.json" ] && cat "$results/pool_device.json"
exit $failed
