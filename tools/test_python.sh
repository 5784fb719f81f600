#!/usr/bin/env bash
# The Python tests with every package that they know, PyTorch among them; none is skipped for a package that lacks.
# usage: tools/test_python.sh [word of pytest ...]
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dev test
export TANADA_BUILD=$PWD/build/dev TANADA_EVERY_PACKAGE=1 TND_TEST_ALL=1
python=$(tools/venv.sh all)
exec "$python" -m pytest -q -rs -p no:cacheprovider "${@:-tests/e2e/python}"
