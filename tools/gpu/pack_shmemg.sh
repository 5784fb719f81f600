#!/usr/bin/env bash
# Gather what tools/gpu/shmemg_kernels.sh and shmemg_far.sh need on a machine that has GPUs and Open MPI, and no network: the programs with kernels, built
# with CUDA, and the libraries. usage: tools/gpu/pack_shmemg.sh BUILD_FOLDER TARGET_FOLDER
# The rival's program goes with them where BUILD_FOLDER's TANADA_NVSHMEM is set; NVSHMEM's library is that machine's own.
set -euo pipefail
cd "$(dirname "$0")/../.."
usage="usage: tools/gpu/pack_shmemg.sh BUILD_FOLDER TARGET_FOLDER"
build=${1:?$usage}
target=${2:?$usage}
rm -rf "$target"
mkdir -p "$target/bin" "$target/lib" "$target/include"
cp "$build"/bin/shmemg_*_cuda "$build"/bin/bench_{shmemg_kernel,shmemg_stream,device_queue}_cuda "$build"/bin/{gpu_contract,stencil2d,lbm}_cuda "$target/bin/"
for rival in stencil2d_mpi lbm_mpi host_calls staging stream_nccl unmapped_cuda; do
  [ ! -e "$build/bin/bench_shmemg_$rival" ] || cp "$build/bin/bench_shmemg_$rival" "$target/bin/"
done
cp "$build"/bin/oshrun "$build"/bin/oshcc "$target/bin/"
cp -r include/compat "$target/include/shmem"
find "$build/lib" \( -name 'libtanada*.so*' -o -name 'libshmem*.so*' -o -name 'libo2g-fi.so' \) -exec cp -a {} "$target/lib/" \;
for library in "$target"/lib/*.so; do ldd "$library" 2>/dev/null; done |
  awk '/lib(uring|png16|gfarm|isal|nfs|sodium|tomlplusplus|xxhash|cpp-httplib|brotli[a-z]+)\.so/ && $3 ~ /^\// {print $3}' | sort -u | while read -r path; do cp -L "$path" "$target/lib/"; done
cp "$build"/bin/bench_shmemg_*_nvshmem "$target/bin/" 2>/dev/null || echo "without NVSHMEM's programs"
strip --strip-unneeded "$target"/bin/*_cuda "$target"/bin/*_nvshmem "$target"/lib/*.so.*.*.* 2>/dev/null || true
du -sh "$target"
