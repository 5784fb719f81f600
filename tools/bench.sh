#!/usr/bin/env bash
# Run the benchmarks (BENCH=name for one): the table goes to the terminal, the JSON to docs/measurements/.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh release bench
mkdir -p docs/measurements
ran=0
for program in build/release/bin/bench_*; do
  name=$(basename "$program")
  name=${name#bench_}
  [ "${BENCH:-all}" = all ] || [ "$BENCH" = "$name" ] || continue
  [ -x "$program" ] || continue
  echo "bench: $name"
  "$program" --json "docs/measurements/$name.json"
  ran=$((ran + 1))
done
if [ $ran = 0 ]; then
  echo "bench: no benchmark is called ${BENCH:-all}; there are:" \
    $(find build/release/bin -name 'bench_*' -printf '%f ' | sed 's/bench_//g') >&2
  exit 1
fi
