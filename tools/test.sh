#!/usr/bin/env bash
# Build one preset and run the tests this machine can run. usage: tools/test.sh dev|asan|tsan|cuda
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
tools/build.sh "$preset" test

selection=()
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  if [ "$preset" = cuda ]; then selection=(-L gpu); fi
elif [ "$preset" = cuda ]; then
  echo "test: no GPU here (nvidia-smi -L finds none)" >&2
  exit 1
else
  selection=(-LE gpu)
fi
# What fails in one part hides nothing of the other. Tests wait for a fifth of their time: one more at a time than there are processors.
failed=0
at_a_time=$(($(nproc) + 1))
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$at_a_time" "${selection[@]}" || failed=$?

# The Python tests drive whole programs and check the tree: they are about sources, not about one build. A file's tests stay together: they
# share what they build.
if [ "$preset" = dev ]; then
  tools/mpi/install.sh mpich5
  TANADA_BUILD=$PWD/build/$preset "$(tools/venv.sh)" -m pytest -q -p no:cacheprovider -n "$at_a_time" --maxprocesses 4 --dist loadfile tests || failed=$?
fi
exit $failed
