#!/usr/bin/env bash
# Make .venv with the Python packages of tools/requirements.txt; prints its interpreter. Quick when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/made-of-$(sha256sum tools/requirements.txt | cut -c1-16)
if [ ! -f "$stamp" ] || ! .venv/bin/python -c '' 2>/dev/null; then
  echo "setup: making .venv for pytest" >&2
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/pip install -q --disable-pip-version-check -r tools/requirements.txt >&2
  touch "$stamp"
fi
echo "$PWD/.venv/bin/python"
