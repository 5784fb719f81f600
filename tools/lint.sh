#!/usr/bin/env bash
# Every check of the tree, then a build with clang: the second compiler with all warnings as errors.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh lint test
for check in layers style docs headers measurements; do
  python3 "tools/check_$check.py"
done
tools/build.sh clang lint test
python3 tools/check_symbols.py build/clang/lib/libtanada.so
