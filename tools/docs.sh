#!/usr/bin/env bash
# Build the documentation site in build/docs/html. Warnings of Doxygen and of Sphinx are errors.
# usage: tools/docs.sh
# TANADA_BUILD names a folder with programs that are built already, whose --help the site shows.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${TANADA_BUILD:-}
if [ -z "$build" ]; then
  build=build/release
  TARGET="tanada_command tanada_poold_program" tools/build.sh release docs
else
  tools/setup.sh docs
fi
command -v doxygen >/dev/null || {
  echo "docs: doxygen is missing: apt-get install doxygen" >&2
  exit 1
}
python=$(tools/venv.sh docs)
folder=$PWD/build/docs
rm -rf "$folder/doxygen" "$folder/html"
mkdir -p "$folder/doxygen"
TANADA_DOXYGEN_FOLDER=$folder/doxygen doxygen docs/site/Doxyfile
"$python" tools/site_pages.py "$build/bin" "$folder/source"
TANADA_DOXYGEN_XML=$folder/doxygen/xml "$python" -m sphinx -q -W --keep-going -E \
  -c docs/site -b html -d "$folder/doctrees" "$folder/source" "$folder/html"
echo "docs: $folder/html/index.html"
