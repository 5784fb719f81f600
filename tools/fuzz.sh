#!/usr/bin/env bash
# Run every fuzzer for FUZZ_SECONDS. A crash leaves its input beside the corpus and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh fuzz lint test
for fuzzer in build/fuzz/bin/*_fuzz; do
  [ -x "$fuzzer" ] || { echo "fuzz: no fuzzer was built" >&2; exit 1; }
  name=$(basename "$fuzzer")
  corpus=tests/fuzz/corpus/$name
  grown=build/fuzz/corpus/$name
  mkdir -p "$corpus" "$grown"
  echo "fuzz: $name for ${FUZZ_SECONDS:-30} s"
  "$fuzzer" -max_total_time="${FUZZ_SECONDS:-30}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$grown/" "$grown" "$corpus" 2>&1 | tail -8
done
