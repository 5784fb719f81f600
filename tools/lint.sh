#!/usr/bin/env bash
# Every check of the tree, then a build with clang, the second compiler with all warnings as errors,
# and clang-tidy.
# usage: tools/lint.sh [--fast]: without the build and clang-tidy
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(tools/venv.sh)
for check in format layers style shape prose names functions docs measurements; do
  "$python" "tools/check_$check.py"
done
environment=$(dirname "$python")
"$environment/ruff" check --no-cache --quiet .
git ls-files '*.sh' .ci/run | xargs "$environment/shellcheck" -x -S warning
[ "${1:-}" != --fast ] || exit 0
"$python" tools/check_commit.py
for check in prose names functions; do
  "$python" "tools/check_$check.py" --strict
done
tools/setup.sh lint test
"$python" tools/check_headers.py
tools/build.sh clang lint test
"$python" tools/check_tidy.py
"$python" tools/check_symbols.py build/clang/lib/libtanada.so
