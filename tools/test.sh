#!/usr/bin/env bash
# Build one preset and run the tests this machine can run. usage: tools/test.sh dev|asan|tsan|cuda
# Of dev, the tests labelled or marked slow run only with TND_TEST_ALL=1.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1

# Tests need signals with their default actions. A script starts its background jobs with SIGINT and SIGQUIT ignored, nohup
# with SIGHUP ignored, and no shell can undo that. In a session of its own nothing of a terminal reaches the tests either.
ignored=$((16#$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status)))
hang_up_interrupt_quit=7
if ((ignored & hang_up_interrupt_quit)); then
  exec setsid --wait env --default-signal=HUP,INT,QUIT "$PWD/tools/test.sh" "$@"
fi
# The environments of the Python tests are made beside the build, which waits for no network. After
# it, they are there or a second attempt reports the reason.
if [ "$preset" = dev ]; then
  tools/setup.sh test
  { tools/mpi/install.sh mpich5 && tools/venv.sh; } >/dev/null 2>&1 &
fi
tools/build.sh "$preset" test
wait

selection=()
left_out=()
if [ "$preset" = dev ] && [ "${TND_TEST_ALL:-}" != 1 ]; then left_out+=(slow); fi
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  if [ "$preset" = cuda ]; then selection=(-L gpu); fi
elif [ "$preset" = cuda ]; then
  echo "test: no GPU here (nvidia-smi -L finds none)" >&2
  exit 1
else
  left_out+=(gpu)
fi
if [ ${#left_out[@]} -gt 0 ]; then
  expression=$(printf '|%s' "${left_out[@]}")
  selection+=(-LE "^(${expression:1})\$")
fi
# What fails in one part hides nothing of the other. Many tests wait for most of their time.
failed=0
at_a_time=$((2 * $(nproc) + 1))
python_workers=$((3 * $(nproc)))
[ "$preset" != dev ] || at_a_time=$(($(nproc) + 2)) # beside the Python tests
reports=("$PWD/build/$preset/ctest.xml" "$PWD/build/$preset/pytest.xml")
rm -f "${reports[@]}"

# The Python tests drive whole programs and check the tree: they are about sources, not about one
# build. A file's tests stay together: they share what they build. They run beside those of CTest.
python_tests=
python_log=build/$preset/pytest.log
if [ "$preset" = dev ]; then
  # Tests of MPI programs skip what is not there.
  tools/mpi/install.sh mpich5 || echo "test: going on without MPICH 5" >&2
  if python=$(tools/venv.sh); then
    mkdir -p "build/$preset"
    : >"$python_log" # tail may come before pytest
    TANADA_BUILD=$PWD/build/$preset "$python" -m pytest -q -p no:cacheprovider \
      --junitxml "${reports[1]}" -n "$python_workers" --maxprocesses 8 --dist loadfile \
      --no-loadscope-reorder tests \
      >"$python_log" 2>&1 &
    python_tests=$!
  fi
fi
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  --output-junit "${reports[0]}" -j "$at_a_time" "${selection[@]}" || failed=$?
if [ -n "$python_tests" ]; then
  tail -n +1 -f --pid="$python_tests" "$python_log"
  wait "$python_tests" || failed=$?
elif [ "$preset" = dev ]; then
  echo "test: the Python tests did not run: their packages are missing" >&2
  exit 1
fi
tools/slowest_tests.py "${reports[@]}"
exit $failed
