#!/usr/bin/env bash
# On a machine that has what tools/gpu/pack_shmem.sh gathered: run bench/shmem/shmem.py there.
# usage: tools/gpu/shmem.sh FOLDER [--processors LIST] OPTIONS_OF_THE_BENCH...
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(cd "${1:?usage: tools/gpu/shmem.sh FOLDER [--processors LIST] OPTIONS...}" && pwd)
shift
processors=
if [ "${1:-}" = --processors ]; then
  processors=$2
  shift 2
fi
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
sandia=()
if [ -f "$folder/sandia.prefix" ]; then
  prefix=$(cat "$folder/sandia.prefix")
  [ -e "$prefix" ] || { mkdir -p "$(dirname "$prefix")" && ln -s "$folder/sandia" "$prefix"; }
  sandia=(--sandia "$prefix")
fi
${processors:+taskset -c "$processors"} bench/shmem/shmem.py --ours "$folder/ours" "${sandia[@]}" "$@"
