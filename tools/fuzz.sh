#!/usr/bin/env bash
# Run every fuzzer for FUZZ_SECONDS. A crash is reported with its location, and its input is kept in
# build/fuzz/found. After all fuzzers have run, the script fails if any of them crashed.
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
  # Logging is off by default, since fuzzers cause thousands of lines a second.
  if TND_LOG=${TND_LOG:-off} "$fuzzer" -max_total_time="${FUZZ_SECONDS:-30}" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$found/$name-" "$grown" "$corpus" >"$log" 2>&1; then
    sed -n 's/^stat::number_of_executed_units: */fuzz: inputs run: /p' "$log"
  else
    failed=1
    tail -80 "$log" >&2
    echo "fuzz: $name failed; its output is in $log, with the input after 'Test unit written to'" >&2
  fi
done
exit $failed
