#!/usr/bin/env bash
# Put what tools/gpu/shmem_python.sh needs into FOLDER, beside what tools/gpu/pack_shmemg.sh BUILD_FOLDER FOLDER and then
# tools/gpu/pack_python.sh FOLDER have put there: shmem4py and cffi. Fetches from PyPI.
# usage: tools/gpu/pack_shmem_python.sh BUILD_FOLDER FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
usage="usage: tools/gpu/pack_shmem_python.sh BUILD_FOLDER FOLDER"
build=$(realpath "${1:?$usage}")
folder=$(realpath "${2:?$usage}")
if [ ! -e "$folder/bin/oshrun" ] || [ ! -d "$folder/wheels" ]; then
  echo "pack: $folder has no bin/oshrun, or no wheels" >&2
  exit 1
fi
lines=$(tools/shmem4py.sh "$build/bin")
python=${lines%%$'\n'*}
# Its extension is of Python's stable ABI, so that of every version.
rm -rf "$folder/shmem4py" "$folder/cffi"
mkdir -p "$folder/shmem4py"
cp -r "$(dirname "$python")"/../lib/python3*/site-packages/shmem4py "$folder/shmem4py/"
for version in 3.10 3.11 3.12 3.13 3.14; do
  "$(dirname "$python")/pip" download -q --disable-pip-version-check --only-binary=:all: --python-version $version \
    --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --no-deps -d "$folder/cffi" cffi==2.0.0 pycparser
done
du -sh "$folder/shmem4py" "$folder/cffi"
