#!/usr/bin/env bash
# Build shmem4py, Python's OpenSHMEM, from PyPI and unmodified with the oshcc of a folder, in an environment of its own under
# that folder's parent. Prints the interpreter and the folder of its tests, a line each. Quick when it is there and nothing has
# changed; 77: PyPI does not answer.
# usage: tools/shmem4py.sh [BIN]   build/dev/bin unless told
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${1:-build/dev/bin}")
folder=$(dirname "$bin")/shmem4py
version=1.0.0
# It was written for NumPy 1. The rest is what its build asks for; the newest setuptools has no pkg_resources.
packages=("numpy==1.26.4" "cffi==2.0.0" "setuptools==80.9.0" "wheel==0.45.1")

# What the compiled module holds of the library: constants and types of its header.
made_of=$({
  cat "$0"
  echo '#include <shmem.h>' | "$bin/oshcc" -E -x c -
} | sha256sum | cut -c1-16)
stamp=$folder/made-of-$made_of
# Tests that run side by side ask for it.
exec 9>"$folder.lock"
flock 9
if [ ! -f "$stamp" ]; then
  echo "setup: building shmem4py $version in $folder" >&2
  rm -rf "$folder"
  mkdir -p "$folder"
  python3 -m venv "$folder/venv"
  pip=("$folder/venv/bin/pip" -q --disable-pip-version-check)
  "${pip[@]}" install "${packages[@]}" >&2 || exit 77
  "${pip[@]}" download --no-deps --no-build-isolation --no-binary :all: -d "$folder" "shmem4py==$version" >&2 || exit 77
  tar -xf "$folder/shmem4py-$version.tar.gz" -C "$folder"
  # No cache: another library's wheel may lie in it.
  # Its build splits OSHCC at blanks: a name, which PATH resolves, has none.
  PATH=$bin:$PATH OSHCC=oshcc "${pip[@]}" install --no-cache-dir --no-deps --no-build-isolation "$folder/shmem4py-$version" >&2
  touch "$stamp"
fi
printf '%s\n' "$folder/venv/bin/python" "$folder/shmem4py-$version/test"
