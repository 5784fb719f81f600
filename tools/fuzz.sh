#!/usr/bin/env bash
# Run every fuzzer for FUZZ_SECONDS. A crash says where, leaves its input in build/fuzz/found and fails, when all have run.
set -euo pipefail
cd "$(dirname "$0")/.."
TARGET=fuzzers tools/build.sh fuzz lint test
found=build/fuzz/found
mkdir -p $found
failed=0
for fuzzer in build/fuzz/bin/*_fuzz; do
  [ -x "$fuzzer" ] || {
    echo "fuzz: no fuzzer was built" >&2
    exit 1
  }
  name=$(basename "$fuzzer")
  corpus=tests/fuzz/corpus/$name
  grown=build/fuzz/corpus/$name
  log=build/fuzz/$name.log
  mkdir -p "$corpus" "$grown"
  echo "fuzz: $name for ${FUZZ_SECONDS:-30} s"
  # Without log lines, which are thousands a second.
  if TND_LOG=${TND_LOG:-off} "$fuzzer" -max_total_time="${FUZZ_SECONDS:-30}" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$found/$name-" "$grown" "$corpus" >"$log" 2>&1; then
    sed -n 's/^stat::number_of_executed_units: */fuzz: inputs run: /p' "$log"
  else
    failed=1
    tail -80 "$log" >&2
    echo "fuzz: $name failed; all it said is in $log, the input is where it says 'Test unit written to'" >&2
  fi
done
exit $failed
