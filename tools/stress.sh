#!/usr/bin/env bash
# Random operations checked against a model, half of STRESS_SECONDS plain and half under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$((${STRESS_SECONDS:-600} / 2))
seed=${STRESS_SEED:-$RANDOM}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for preset in dev tsan; do
  tools/build.sh "$preset" test
  echo "stress: $preset, $seconds s, seed $seed"
  TSAN_OPTIONS=halt_on_error=1 "build/$preset/bin/gfile_stress" --seconds "$seconds" --seed "$seed" --root "$scratch/" --root mem://stress/
done
