#!/usr/bin/env bash
# The main job: an FDTD run on the machine at hand. Builds what it needs, runs, and names the picture it drew.
# DEMO_STEPS sets the number of steps; DEMO_OUTPUT the folder of the picture, build/demo unless given.
set -euo pipefail
cd "$(dirname "$0")/.."
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
# Without a GPU nobody needs the programs for one.
has_gpu || export CUDA=0
tools/build.sh release demo

output=${DEMO_OUTPUT:-build/demo}
mkdir -p "$output"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bin=build/release/bin
program=fdtd
if has_gpu; then
  if [ -x $bin/fdtd_cuda ]; then
    program=fdtd_cuda
  else
    echo "demo: there is a GPU but no CUDA compiler was found at build time; running on the host (make CUDA=1 demo fetches one)"
  fi
else
  echo "demo: no GPU here; kernels run on the host executor"
fi

# A real Gfarm where its packages are; else files.
fixture=tests/fixtures/gfarm.py
runner=()
store=file://$work
why=""
if ! command -v gfmd >/dev/null || ! command -v gfsd >/dev/null; then
  why="gfmd and gfsd are not installed"
elif [ ! -f build/release/lib/libtanada_store_gfarm.so ]; then
  why="the Gfarm store was not built"
elif ! python3 $fixture run -- true >"$work/gfarm.log" 2>&1; then
  why="it does not start: $(tail -1 "$work/gfarm.log")"
else
  runner=(python3 $fixture run --)
  store=gfarm:///demo
fi
[ -z "$why" ] || echo "demo: no Gfarm ($why); the store is $store"

command=("$bin/$program" --output "$output" --store "$store")
[ -z "${DEMO_STEPS:-}" ] || command+=(--steps "$DEMO_STEPS")
"${runner[@]}" "${command[@]}"

picture=$(ls -t "$output"/*.png | head -1)
echo "demo: the field is drawn in $picture"
