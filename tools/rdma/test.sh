#!/usr/bin/env bash
# The fabric's contract over verbs on Soft-RoCE, in a virtual machine. Arguments go to the test program.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build test rdma
mkdir -p build
cmake --preset dev >build/rdma-configure.log 2>&1 || { cat build/rdma-configure.log >&2; exit 1; }
cmake --build build/dev --parallel "$(nproc)" --target fabric_contract_libfabric
tools/rdma/vm.sh -t 1800 "$PWD/build/dev/bin/fabric_contract_libfabric" --provider "verbs;ofi_rxm" --node 10.77.0.1 "$@"
