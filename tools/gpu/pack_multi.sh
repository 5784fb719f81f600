#!/usr/bin/env bash
# Gather what tools/gpu/two.sh and four.sh need on a machine that has GPUs, Open MPI 4, libfabric
# and no network: what pack_shmemg.sh gathers, gfile's and FDTD's benchmarks, comex and the pool.
# usage: tools/gpu/pack_multi.sh BUILD_FOLDER TARGET_FOLDER
# TARGET_FOLDER.tar.gz has the same, in less than half of the size.
# PROGRAM_END: the end of the programs' names (_cuda). If it is empty, programs of the host executor
# are gathered, to try the scripts without GPUs.
set -euo pipefail
cd "$(dirname "$0")/../.."
usage="usage: tools/gpu/pack_multi.sh BUILD_FOLDER TARGET_FOLDER"
build=${1:?$usage}
target=${2:?$usage}
end=${PROGRAM_END-_cuda}
rm -rf "$target"
mkdir -p "$target/bin" "$target/lib" "$target/programs"
programs=(stencil2d lbm fdtd bench_gfile bench_shmemg_kernel bench_shmemg_stream)
for name in transfers private atomics waits collectives teams stream_order streams; do
  [ ! -e "$build/bin/shmemg_$name$end" ] || programs+=("shmemg_$name")
done
for name in "${programs[@]}"; do cp "$build/bin/$name$end" "$target/bin/"; done
for name in oshrun tanada-poold bench_shmemg_host_calls bench_shmemg_pairs; do
  cp "$build/bin/$name" "$target/bin/"
done
if [ -n "$end" ]; then
  cp "$build"/bin/{bench_device_queue,gpu_contract}_cuda "$target/bin/"
  for rival in stencil2d_mpi lbm_mpi pairs_mpi stream_nccl; do
    cp "$build/bin/bench_shmemg_$rival" "$target/bin/"
  done
  cp "$build"/bin/bench_shmemg_*_nvshmem "$target/bin/" || echo "without NVSHMEM's programs" >&2
fi
for library in tanada shmem armci comex; do cp -a "$build"/lib/lib$library.so* "$target/lib/"; done
for plugin in fabric bootstrap_pmix cuda shmem_stream_cuda shmem_stream_host; do
  cp "$build/lib/libtanada_$plugin.so" "$target/lib/"
done
cp "$build/lib/libo2g-fi.so" "$target/lib/"
mpicc -std=c11 -D_GNU_SOURCE -O1 -o "$target/programs/transfers" \
  tests/conformance/comex/programs/transfers.c -Iinclude/compat/comex -L"$target/lib" \
  -larmci -lcomex -lm
# Libraries that such a machine may lack.
for file in "$target"/lib/*.so "$target"/bin/*; do ldd "$file" 2>/dev/null || true; done |
  awk '/lib(uring|png16|gfarm|isal|nfs|sodium|tomlplusplus|xxhash|cpp-httplib|brotli[a-z]+)\.so/ &&
    $3 ~ /^\// {print $3}' |
  sort -u | while read -r path; do cp -L "$path" "$target/lib/"; done
find "$target" -type f \( -path '*/bin/*' -o -name '*.so*' \) -exec strip --strip-unneeded {} + \
  2>/dev/null || true
# The scripts, so that they run without a checkout: FOLDER/tools/gpu/two.sh FOLDER RESULTS.
for script in tools/gpu/{two,four,parts,multi,comex_device}.sh tools/gpu/print_rows.py \
  bench/shmemg/shmemg.py bench/fdtd/several_pes.py bench/common/machine.py \
  tools/mpi/processes.py; do
  mkdir -p "$target/$(dirname "$script")"
  cp "$script" "$target/$script"
done
tar -C "$target" -czf "$target.tar.gz" .
du -sh "$target" "$target.tar.gz"
