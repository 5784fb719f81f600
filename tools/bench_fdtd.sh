#!/usr/bin/env bash
# Run bench_fdtd against a pool daemon of its own. usage: tools/bench_fdtd.sh PROGRAM [options of bench_fdtd ...]
# The daemon is the tanada-poold beside PROGRAM. FDTD_SIZE: cells an axis (64; on a GPU 256); FDTD_STEPS: 2000.
# FDTD_FOLDER: where the files go, a temporary folder unless given.
set -euo pipefail
program=${1:?usage: tools/bench_fdtd.sh PROGRAM [options ...]}
shift
case $program in *_cuda) size=${FDTD_SIZE:-256} ;; *) size=${FDTD_SIZE:-64} ;; esac
steps=${FDTD_STEPS:-2000}
work=$(mktemp -d)
folder=${FDTD_FOLDER:-$work/files}
mkdir -p "$folder"
. "$(dirname "$0")/start_pool.sh"
end() {
  end_pool
  rm -f "$folder"/ez-*.npy
  rm -rf "$work"
}
trap end EXIT
# Every snapshot of a run, and room for the versions that replace them.
snapshot_mib=$((size * size * size * 4 / 1048576 + 1))
pool_mib=$(((steps / 10 + 1) * snapshot_mib + 8 * snapshot_mib + 256))
start_pool "$(dirname "$program")/tanada-poold" "${pool_mib}MiB" 60 # bringing many GiB in takes a while
"$program" --pool "pool://127.0.0.1:$(cat "$work/port")/bench/fdtd" --folder "$folder" --size "$size" --steps "$steps" "$@"
