#!/usr/bin/env bash
# Gather what a GPU machine without compilers' packages needs into one folder: programs, libraries, and the shared
# libraries they use that such a machine may lack. usage: tools/gpu/pack.sh BUILD_FOLDER [TARGET_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?usage: tools/gpu/pack.sh BUILD_FOLDER [TARGET_FOLDER]}
target=${2:-.carry}
rm -rf "$target"
mkdir -p "$target/bin" "$target/lib"
find "$build/bin" -maxdepth 1 -type f \( -name '*_cuda' -o -name tanada -o -name tanada-poold -o -name bench_pool -o -name oshrun \) -exec cp {} "$target/bin/" \;
find "$build/lib" \( -name 'libtanada*.so*' -o -name 'libshmem.so*' \) -exec cp -a {} "$target/lib/" \;
for library in "$target"/lib/*.so "$target"/bin/*; do ldd "$library" 2>/dev/null || true; done |
  awk -v names='uring|pmem|ndctl|daxctl|png16|gfarm|isal|nfs|sodium|tomlplusplus|xxhash|cpp-httplib' \
    '$0 ~ "lib(" names "|brotli[a-z]+)[.]so" && $3 ~ /^\// {print $3}' | sort -u |
  while read -r path; do cp -L "$path" "$target/lib/"; done
strip --strip-unneeded "$target"/bin/* "$target"/lib/*.so.*.*.* "$target"/lib/libtanada_*.so 2>/dev/null || true
du -sh "$target"
