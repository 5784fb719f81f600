#!/usr/bin/env bash
# Transfers of comex in memory of GPUs, of what tools/gpu/pack_comex.sh gathered: on one node, and on pretended ones.
# usage: tools/gpu/comex_device.sh FOLDER    STEP_LIMIT: seconds of one of them (120)
set -euo pipefail
folder=$(realpath "${1:?usage: tools/gpu/comex_device.sh FOLDER}")
export LD_LIBRARY_PATH=$folder/ours/lib:${LD_LIBRARY_PATH:-} TND_COMEX_DEVICE_HEAP=64M
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_hwloc_base_binding_policy=none
nvidia-smi -L || echo 'no GPU: the programs take the host executor'
failed=0
program=("$folder/programs/transfers" gpu)
step() {
  local name=$1
  shift
  if timeout "${STEP_LIMIT:-120}" mpirun --oversubscribe "$@" "${program[@]}"; then
    echo "$name: ok"
  else
    echo "$name: FAILED" && failed=1
  fi
}
for ranks in 1 2 4; do step "one node, $ranks ranks" -n "$ranks"; done
step "two nodes" -n 2 -x TND_PGAS_NODE=a "${program[@]}" : -n 2 -x TND_PGAS_NODE=b
TND_PGAS_DEVICE=staged step "two nodes, staged" -n 2 -x TND_PGAS_NODE=a "${program[@]}" : -n 2 -x TND_PGAS_NODE=b
exit $failed
