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
TARGET=o2g_seed_test CUDA=0 tools/build.sh dev test
tools/driver/uml_run.sh -m 3072 -t 1800 -w "$folder" tools/driver/suite.sh "$@" "$module" "$folder" build/dev/bin/o2g_seed_test
