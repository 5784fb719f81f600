#!/usr/bin/env bash
# Build unmodified shmem4py, OpenSHMEM for Python, from PyPI by the oshcc in BIN, in a virtual
# environment below BIN's parent folder. Prints the interpreter and the folder of shmem4py's tests,
# one a line. An up-to-date build is not repeated. Exit status 77: PyPI does not answer.
# usage: tools/shmem4py.sh [BIN]   by default build/dev/bin
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${1:-build/dev/bin}")
folder=$(dirname "$bin")/shmem4py
version=1.0.0
# shmem4py needs NumPy 1. Its build requires the other packages; the newest setuptools has no
# pkg_resources.
packages=("numpy==1.26.4" "cffi==2.0.0" "setuptools==80.9.0" "wheel==0.45.1")

# The compiled module depends on the constants and types of the library's header.
made_of=$({
  cat "$0"
  echo '#include <shmem.h>' | "$bin/oshcc" -E -x c -
} | sha256sum | cut -c1-16)
stamp=$folder/made-of-$made_of
# Tests that run at the same time may call this script.
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
  # The cache may have a wheel that was built for another library. The build splits OSHCC at blanks,
  # so that it must be a name which PATH resolves.
  PATH=$bin:$PATH OSHCC=oshcc "${pip[@]}" install --no-cache-dir --no-deps --no-build-isolation "$folder/shmem4py-$version" >&2
  touch "$stamp"
fi
printf '%s\n' "$folder/venv/bin/python" "$folder/shmem4py-$version/test"
