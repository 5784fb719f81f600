#!/usr/bin/env bash
# Build what is installed, and install it under PREFIX. Written by cmake --install, so DESTDIR is respected.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/prefix.sh
TARGET=installed INSTALL_PREFIX=$prefix tools/build.sh release
cmake --install build/release --prefix "$prefix"
