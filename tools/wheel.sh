#!/usr/bin/env bash
# Make a wheel independent of this machine's libraries, with the tag of the oldest glibc that it
# runs on. usage: tools/wheel.sh PYTHON WHEEL FOLDER
set -euo pipefail
python=$1 wheel=$2 folder=$3
PATH=$(dirname "$python"):$PATH
# The libraries of a plugin are those of the services that it connects to, or of the launcher: they
# come from the machine's packages. A plugin whose library is missing reports which one. libtanada
# is in the wheel.
excluded=()
for library in libcuda.so.1 libfabric.so.1 libgfapi.so.0 libgfarm.so.1 libpmix.so.2 \
  libshmem.so.0 libtanada.so.0; do
  excluded+=(--exclude "$library")
done
log=$folder/wheel.log
if ! "$python" -m auditwheel repair --strip "${excluded[@]}" --wheel-dir "$folder" "$wheel" \
  >"$log" 2>&1; then
  tail -5 "$log" >&2
  exit 1
fi
rm "$log"
echo "packages: $(ls "$folder"/*.whl), which auditwheel takes for:"
"$python" -m auditwheel show "$folder"/*.whl | grep -o 'manylinux_[0-9_]*x86_64' | sort -u
