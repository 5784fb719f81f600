#!/usr/bin/env bash
# Make a wheel independent of this machine's libraries, with the tag of the oldest glibc that it
# runs on. usage: tools/wheel.sh PYTHON WHEEL FOLDER
set -euo pipefail
python=$1 wheel=$2 folder=$3
PATH=$(dirname "$python"):$PATH
# The libraries of a plugin are those of the services that it connects to, or of the launcher: they
# come from the machine's packages. A plugin whose library is missing reports which one.
excluded=()
for library in libcuda.so.1 libfabric.so.1 libgfapi.so.0 libgfarm.so.1 libpmix.so.2 libpmem.so.1 \
  libshmem.so.0; do
  excluded+=(--exclude "$library")
done
"$python" -m auditwheel show "$wheel" | sed -n '/manylinux_[0-9_]*x86_64/{p;q}'
"$python" -m auditwheel repair "${excluded[@]}" --wheel-dir "$folder" "$wheel"
ls "$folder"/*.whl
