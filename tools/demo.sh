#!/usr/bin/env bash
# The demo: an FDTD simulation on this machine, with its snapshots in a memory pool. The script
# builds the programs, starts a pool daemon and runs the simulation. It prints the cost of the
# snapshots and the names of the images.
# DEMO_STEPS: number of steps.
# DEMO_ROUNDS: number of comparisons with a run without snapshots (default 0).
# DEMO_OUTPUT: the folder of the images (default build/demo).
# DEMO_PES: processes that share the grid. Default: one for each GPU; two without GPUs, on at least
#   two processors; one without a launcher.
# DEMO_BIN: the folder of programs that are already built.
set -euo pipefail
cd "$(dirname "$0")/.."
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
bin=${DEMO_BIN:-build/release/bin}
lib=${bin%/bin}/lib
if [ -z "${DEMO_BIN:-}" ]; then
  # Without a GPU the programs for GPUs are not built. The configuration is that of `make install`,
  # which therefore does not build these targets again.
  target=demo
  has_gpu || target=demo_host
  TARGET=$target tools/build.sh release demo
fi

output=${DEMO_OUTPUT:-build/demo}
mkdir -p "$output"
work=$(mktemp -d)
. tools/start_pool.sh
end() {
  end_pool
  rm -rf "$work"
}
trap end EXIT

program=fdtd
if has_gpu; then
  if [ -x "$bin/fdtd_cuda" ]; then
    program=fdtd_cuda
  else
    echo "demo: there is a GPU but no CUDA compiler was found at build time; running on the host (make CUDA=1 demo fetches one)"
  fi
else
  echo "demo: no GPU here; kernels run on the host executor"
fi

# The PEs of a job need a launcher with PMIx, and the plugin for PMIx.
pe_count=${DEMO_PES:-}
if [ -z "$pe_count" ]; then
  case $program in
    *_cuda) pe_count=$(nvidia-smi -L | grep -c '^GPU') ;;
    *) pe_count=$(($(nproc) > 1 ? 2 : 1)) ;;
  esac
fi
launcher=()
if [ "$pe_count" -gt 1 ]; then
  if ! launched=$("$bin/oshrun" --quiet --print -n "$pe_count" true 2>&1); then
    why=$launched
  elif [ ! -f "$lib/libtanada_bootstrap_pmix.so" ]; then
    why="the plugin for PMIx was not built, which needs libpmix-dev"
  else
    launcher=("$bin/oshrun" --quiet -n "$pe_count")
    why=""
  fi
  if [ -n "$why" ]; then
    pe_count=1
    echo "demo: one process ($why)"
  else
    echo "demo: $pe_count processes share the grid, started by ${launched%% *}"
  fi
fi

# The store is a real Gfarm where its packages are installed, and files elsewhere.
fixture=tests/fixtures/gfarm.py
runner=()
store=file://$work
why=""
if ! command -v gfmd >/dev/null || ! command -v gfsd >/dev/null; then
  why="gfmd and gfsd are not installed"
elif [ ! -f "$lib/libtanada_store_gfarm.so" ]; then
  why="the Gfarm store was not built"
elif ! python3 "$fixture" run -- true >"$work/gfarm.log" 2>&1; then
  why="it does not start: $(tail -1 "$work/gfarm.log")"
else
  runner=(python3 "$fixture" run --)
  store=gfarm:///demo
fi
[ -z "$why" ] || echo "demo: no Gfarm ($why); the store is $store"

# The pool holds all snapshots, 3.5 MB each, twice: each round replaces those of the previous one.
snapshot_count=$((${DEMO_STEPS:-240} / 10 + 1))
start_pool "$bin/tanada-poold" "$((128 + snapshot_count * 8))MiB" 10
snapshots=pool://127.0.0.1:$(cat "$work/port")/demo/run

command=("${launcher[@]}" "$bin/$program" --output "$output" --store "$store" --snapshots "$snapshots")
[ -z "${DEMO_STEPS:-}" ] || command+=(--steps "$DEMO_STEPS")
[ -t 1 ] || command+=(--lines) # the launcher gives its processes a terminal
[ "${DEMO_ROUNDS:-0}" = 0 ] || command+=(--compare "$DEMO_ROUNDS")
"${runner[@]}" "${command[@]}"
"$bin/tanada" render "$snapshots/" --size 480 -o "$output/field.gif" >"$work/render.log" 2>&1 ||
  {
    cat "$work/render.log" >&2
    exit 1
  }

echo "demo: the field is drawn in $output/field.png; its snapshots in the pool, one after the other, in $output/field.gif"
