#!/usr/bin/env bash
# Every test of the driver, in a kernel with KASAN, lockdep, kmemleak and failing allocations: some ten minutes. The first call
# builds that kernel, too.
# usage: tools/driver/test.sh [-q]     -q: a tenth of the time for random operations
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build test kernel
folder=$PWD/build/driver/uml
kernel=$(tools/driver/uml_build.sh)
module=$(tools/driver/build_module.sh -c "$folder" "$(dirname "$kernel")" ARCH=um)
tools/driver/build_programs.sh "$folder/programs"
TARGET="o2g_paper_test o2g_test o2g_provider_test o2g-fi" tools/build.sh dev test
mkdir -p "$folder/mpi"
if command -v mpicc.openmpi >/dev/null; then
  for program in order unexpected; do
    mpicc.openmpi -O2 -std=c11 -D_GNU_SOURCE -o "$folder/mpi/$program" "tests/conformance/o2g/programs/$program.c"
  done
fi
tools/driver/uml_run.sh -m 3072 -t 1800 -w "$folder" tools/driver/suite.sh "$@" "$module" "$folder" \
  build/dev/bin/o2g_paper_test build/dev/bin/o2g_test build/dev/bin/o2g_provider_test
