#!/usr/bin/env bash
# Build and install under PREFIX. Written by cmake --install, so DESTDIR is respected.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh release
cmake --install build/release --prefix "${PREFIX:-/usr/local}"
