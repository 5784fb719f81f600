#!/usr/bin/env bash
# Gather what tools/gpu/comex.sh and comex_device.sh need on a machine that has Open MPI 4, Python and no compiler.
# usage: tools/gpu/pack_comex.sh BUILD_FOLDER TARGET_FOLDER [mpi-pr=FOLDER] [mpi-ts=FOLDER] [armci-mpi=FOLDER]
# FOLDER: where a rival's ARMCI is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
usage="usage: tools/gpu/pack_comex.sh BUILD_FOLDER TARGET_FOLDER [mpi-pr=FOLDER] [mpi-ts=FOLDER] [armci-mpi=FOLDER]"
build=${1:?$usage}
target=${2:?$usage}
shift 2
rm -rf "$target"
mkdir -p "$target/ours/lib" "$target/programs" "$target/rivals"
options=()
for each in "$@"; do
  name=${each%%=*} folder=${each#*=}
  mkdir -p "$target/rivals/$name"
  cp -r "$folder/include" "$folder/lib" "$target/rivals/$name/"
  options+=("--$name" "$folder")
done
python3 bench/comex/comex.py --ours "$build" --rows operations,messages --rounds 0 --programs "$target/programs" "${options[@]}" >/dev/null
for library in armci comex tanada_fabric tanada_bootstrap_pmix o2g-fi tanada_cuda; do
  [ "$library" = tanada_cuda ] && [ ! -e "$build/lib/libtanada_cuda.so" ] || cp -a "$build"/lib/lib"$library".so* "$target/ours/lib/"
done
cp -r include/compat/comex "$target/ours/include"
mpicc -std=c11 -D_GNU_SOURCE -O1 -o "$target/programs/transfers" tests/conformance/comex/programs/transfers.c -Iinclude/compat/comex \
  -L"$target/ours/lib" -larmci -lcomex -lm
ldd "$target"/ours/lib/*.so | awk '/liburing\.so/ && $3 ~ /^\// {print $3}' | sort -u | while read -r path; do cp -L "$path" "$target/ours/lib/"; done
du -sh "$target"
