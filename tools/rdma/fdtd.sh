#!/usr/bin/env bash
# In the first of two guests: bench_fdtd with snapshots in the pool and in the NFS folder of the
# second, see serve.sh.
# usage: tools/rdma/fdtd.sh FOLDER
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
folder=$1
. tools/rdma/serve.sh
[ ${#folders[@]} -gt 0 ] || die "fdtd: there is no NFS to compare with"
TND_POOL_TIMEOUT=300s "$bin/bench_fdtd" --pool "pool://$server/fdtd/run" --folder /mnt/tcp \
  --file-system NFS --size 32 --steps 2000 --rounds 1 --json "$folder/fdtd_link_guest.json" ||
  die "bench_fdtd"
