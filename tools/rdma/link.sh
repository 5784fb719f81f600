#!/usr/bin/env bash
# In the first of two guests: bench_pool compares the pool and NFS of the second, see serve.sh.
# usage: tools/rdma/link.sh SIZE_MAX FOLDER
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
size=$1 folder=$2
. tools/rdma/serve.sh
"$bin/bench_pool" --url "pool://$server/link" --provider 'verbs;ofi_rxm' --size-max "$size" \
  "${folders[@]}" --json "$folder/pool_link_guest.json" || die "bench_pool"
