#!/usr/bin/env bash
# Gather what bench/shmem/shmem.py needs on a machine that has a C compiler and Open MPI, and no network: our OpenSHMEM as it is
# installed, the libraries that machine lacks, and Sandia OpenSHMEM if a folder with one is named.
# usage: tools/gpu/pack_shmem.sh BUILD_FOLDER TARGET_FOLDER [SANDIA_PREFIX]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?usage: tools/gpu/pack_shmem.sh BUILD_FOLDER TARGET_FOLDER [SANDIA_PREFIX]}
target=${2:?usage: tools/gpu/pack_shmem.sh BUILD_FOLDER TARGET_FOLDER [SANDIA_PREFIX]}
rm -rf "$target"
mkdir -p "$target/lib"
cmake --install "$build" --prefix "$PWD/$target/ours" --strip >/dev/null
ldd "$target"/ours/lib/tanada/libo2g-fi.so | awk '/liburing\.so/ && $3 ~ /^\// {print $3}' | while read -r path; do cp -L "$path" "$target/lib/"; done
if [ -n "${3:-}" ]; then
  # Its compiler's wrapper names the folder where it was installed: it is linked to from there.
  mkdir -p "$target/sandia"
  realpath "$3" >"$target/sandia.prefix"
  cp -r "$3/bin" "$3/include" "$3/lib" "$target/sandia/"
  find "$target/sandia" -name '*.a' -delete
  find "$target/sandia" -name '*.so*' -type f -exec strip --strip-debug {} +
fi
du -sh "$target"
