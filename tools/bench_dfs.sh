#!/usr/bin/env bash
# Run bench_dfs beside a Gfarm and, where one can run, a GlusterFS
# (tests/fixtures/gfarm.py run -- tools/bench_dfs.sh PROGRAM OPTION ...): files of SIZE MiB, 256 if not said. Gfarm's are
# one whose replica the client reaches through a descriptor and one that it reaches over TCP.
set -euo pipefail
if [ -z "${TND_TEST_GLUSTER:-}" ]; then
  python3 "$(dirname "$0")/../tests/fixtures/gluster.py" run -- "$0" "$@" && exit
  [ $? = 77 ] || exit 1
  echo "bench_dfs: GlusterFS is left out"
fi
file=$(mktemp)
trap 'rm -f "$file"' EXIT
head -c "${SIZE:-256}M" /dev/urandom >"$file"
gfreg -h 127.0.0.1 "$file" /bench_local
gfreg -h 127.0.0.2 "$file" /bench_tcp
urls=("gfarm:///bench_local=local replica" "gfarm:///bench_tcp=TCP replica")
[ -z "${TND_TEST_GLUSTER:-}" ] || urls+=("+${TND_TEST_GLUSTER}bench=two bricks on loopback")
"$@" --fill "${SIZE:-256}" "${urls[@]}"
