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
pool_pid=""
end() {
  if [ -n "$pool_pid" ] && kill "$pool_pid" 2>/dev/null; then wait "$pool_pid" || true; fi
  rm -f "$folder"/ez-*.npy
  rm -rf "$work"
}
trap end EXIT
# Every snapshot of a run, and room for the versions that replace them.
snapshot_mib=$(( size * size * size * 4 / 1048576 + 1 ))
pool_mib=$(( (steps / 10 + 1) * snapshot_mib + 8 * snapshot_mib + 256 ))
"$(dirname "$program")/tanada-poold" --port 0 --size "${pool_mib}MiB" --port-file "$work/port" >"$work/poold.log" 2>&1 &
pool_pid=$!
for _ in $(seq 1200); do  # bringing many GiB in takes a while
  [ -e "$work/port" ] || ! kill -0 "$pool_pid" 2>/dev/null || sleep 0.05
done
if [ ! -e "$work/port" ]; then
  echo "bench_fdtd.sh: the pool's daemon does not start:" >&2
  cat "$work/poold.log" >&2
  exit 1
fi
"$program" --pool "pool://127.0.0.1:$(cat "$work/port")/bench/fdtd" --folder "$folder" --size "$size" --steps "$steps" "$@"
