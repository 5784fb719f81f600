#!/usr/bin/env bash
# Run the benchmarks (BENCH=name for one): the table goes to the terminal, the JSON to docs/measurements/.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh release bench
mkdir -p docs/measurements
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
ran=0
for program in build/release/bin/bench_*; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  name=${name#bench_}
  # The build for a GPU where there is one; what the host executor reaches is kept apart.
  case $name in *_cuda) continue ;; esac
  [ "${BENCH:-all}" = all ] || [ "$BENCH" = "$name" ] || continue
  file=docs/measurements/${name}_host.json
  if has_gpu && [ -x "${program}_cuda" ]; then
    program=${program}_cuda
    file=docs/measurements/$name.json
  fi
  echo "bench: $name"
  # Distributed file systems need servers and files there.
  if [ "$name" = dfs ]; then
    python3 tests/fixtures/gfarm.py run -- tools/bench_dfs.sh "$program" --json "$file"
  elif [ "$name" = fdtd ]; then
    tools/bench_fdtd.sh "$program" --json "$file"
  else
    "$program" --json "$file"
  fi
  ran=$((ran + 1))
done
if [ $ran = 0 ]; then
  echo "bench: no benchmark is called ${BENCH:-all}; there are:" \
    $(find build/release/bin -name 'bench_*' ! -name '*_cuda' -printf '%f ' | sed 's/bench_//g') >&2
  exit 1
fi
