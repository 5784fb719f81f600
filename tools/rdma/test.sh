#!/usr/bin/env bash
# The fabric's contract and the pool over verbs on Soft-RoCE, in a virtual machine, some ten minutes. Arguments as
# tools/rdma/suite.sh takes them.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build test rdma
mkdir -p build
cmake --preset dev >build/rdma-configure.log 2>&1 || { cat build/rdma-configure.log >&2; exit 1; }
cmake --build build/dev --parallel "$(nproc)" --target fabric_contract_libfabric pool_contract pool_over_fabric
tools/rdma/vm.sh -m 3072 -t 2700 "$PWD/tools/rdma/suite.sh" "$@"
