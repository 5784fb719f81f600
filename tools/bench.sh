#!/usr/bin/env bash
# Run the benchmarks (BENCH=name for one): the table goes to the terminal, the JSON to docs/measurements/.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh release bench
mkdir -p docs/measurements
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
ran=0
names=$(find build/release/bin -name 'bench_*' -printf '%f\n' | sed 's/^bench_//; s/_cuda$//' | sort -u)
for name in $names; do
  [ "${BENCH:-all}" = all ] || [ "$BENCH" = "$name" ] || continue
  # The build for a GPU where there is one; what the host executor reaches is kept apart.
  program=build/release/bin/bench_$name
  file=docs/measurements/${name}_host.json
  if has_gpu && [ -x "${program}_cuda" ]; then
    program=${program}_cuda
    file=docs/measurements/$name.json
  fi
  [ -x "$program" ] || continue
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
  # shellcheck disable=SC2086  # the names are words
  echo "bench: no benchmark that runs here is called ${BENCH:-all}; there are:" $names >&2
  exit 1
fi
python3 tools/measurements.py
