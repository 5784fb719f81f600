#!/usr/bin/env bash
# Run every simulation with SEEDS seeds of each of its parts. A failure prints the command that replays it.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dev test
failed=()
for simulation in build/dev/bin/*_sim; do
  echo "simulate: $(basename "$simulation"), ${SEEDS:=10000} seeds"
  TND_LOG=off TND_SIM_COUNT=$SEEDS "$simulation" --gtest_brief=1 || failed+=("$(basename "$simulation")")
done
[ ${#failed[@]} -eq 0 ] || {
  echo "simulate: failed: ${failed[*]}" >&2
  exit 1
}
