#!/usr/bin/env bash
# Put what tools/gpu/python.sh needs into FOLDER, beside what tools/gpu/pack.sh put there: a wheel for Python 3.12 and
# newer, and the installed library, to build the extension from where that wheel does not fit.
# usage: tools/gpu/pack_python.sh FOLDER
# PYTHON312: an interpreter of 3.12 or newer. Fetches what the build needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mkdir -p "${1:?usage: tools/gpu/pack_python.sh FOLDER}" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$folder/wheels" "$folder/prefix" "$folder/needs"
"${PYTHON312:-python3.12}" -m venv "$work/venv"
"$work/venv/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$folder/wheels" --config-settings cmake.define.TANADA_CUDA=ON .
# numba-cuda 0.30 wants a NumPy that has row_stack, which 2.4 does not; where the machine's is newer, this one is used.
"$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$folder/needs" 'numpy==2.3.*'
# Not the component `python`: its stub is made by an interpreter that is gone.
for component in headers pkgconfig plugins Unspecified; do
  cmake --install build/python-cp312-abi3-linux_x86_64 --component $component --prefix "$folder/prefix" --strip >/dev/null
done
mkdir -p "$folder/lib"
# shellcheck disable=SC2046  # each path is a word
cp -L $(ldd "$folder/prefix/lib/libtanada.so" | awk '/lib(uring|sodium|xxhash|isal)/ {print $3}') "$folder/lib/"
du -sh "$folder/wheels" "$folder/prefix"
