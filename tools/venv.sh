#!/usr/bin/env bash
# Make an environment with the Python packages of tests; prints its interpreter. Quick when it is there.
# usage: tools/venv.sh [all]
#   .venv: tools/requirements.txt; all: .venv-all, with tools/requirements-all.txt, too.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.venv
lists=(tools/requirements.txt)
if [ "${1:-}" = all ]; then
  folder=.venv-all
  lists+=(tools/requirements-all.txt)
fi
stamp=$folder/made-of-$(cat "${lists[@]}" | sha256sum | cut -c1-16)
if [ ! -f "$stamp" ] || ! "$folder/bin/python" -c '' 2>/dev/null; then
  . tools/environment.sh
  words=()
  for list in "${lists[@]}"; do words+=(-r "$list"); done
  make_environment "$folder" "${words[@]}"
  touch "$stamp"
fi
echo "$PWD/$folder/bin/python"
