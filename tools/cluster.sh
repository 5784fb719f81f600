#!/usr/bin/env bash
# A real cluster and a real etcd in network namespaces, which are killed, stopped, cut and filled.
# KILLS is how often each server is killed; no round begins after MINUTES. Arguments as
# tests/e2e/pool/cluster_faults.py takes them. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
TARGET="tanada_command tanada_poold_program pool_cluster_load" tools/build.sh dev test
python=$(tools/venv.sh)
export TANADA_BUILD=$PWD/build/dev
exec "$python" tests/e2e/pool/cluster_faults.py --kills "${KILLS:-100}" \
  --minutes "${MINUTES:-600}" --json build/dev/cluster_faults.json "$@"
