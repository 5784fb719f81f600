#!/usr/bin/env bash
# Build and install under PREFIX. Written by cmake --install, so DESTDIR is respected.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/prefix.sh
INSTALL_PREFIX=$prefix tools/build.sh release
cmake --install build/release --prefix "$prefix"
