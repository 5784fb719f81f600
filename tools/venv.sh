#!/usr/bin/env bash
# Make an environment with the Python packages of tests; prints its interpreter. Quick when it is there.
# usage: tools/venv.sh [all|docs|packages]
#   .venv: tools/requirements.txt; all: .venv-all, with tools/requirements-all.txt, too; docs:
#   .venv-docs, tools/requirements-docs.txt, for the documentation site and its pictures; packages:
#   .venv-packages, tools/requirements-packages.txt, for wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.venv
lists=(tools/requirements.txt)
case ${1:-} in
  all)
    folder=.venv-all
    lists+=(tools/requirements-all.txt)
    ;;
  docs)
    folder=.venv-docs
    lists=(tools/requirements-docs.txt)
    ;;
  packages)
    folder=.venv-packages
    lists=(tools/requirements-packages.txt)
    ;;
esac
stamp=$folder/made-of-$(cat "${lists[@]}" | sha256sum | cut -c1-16)
if [ ! -f "$stamp" ] || ! "$folder/bin/python" -c '' 2>/dev/null; then
  . tools/environment.sh
  words=()
  for list in "${lists[@]}"; do words+=(-r "$list"); done
  make_environment "$folder" "${words[@]}"
  touch "$stamp"
fi
echo "$PWD/$folder/bin/python"
