#!/usr/bin/env bash
# Run bench_dfs on a Gfarm and, where one can run, a GlusterFS.
# usage: tests/fixtures/gfarm.py run -- tools/bench_dfs.sh PROGRAM OPTION ...
# Files have SIZE MiB (default 256). Of the two files in Gfarm, the client reads one replica through
# a descriptor, and the other over TCP.
set -euo pipefail
if [ -z "${TND_TEST_GLUSTER:-}" ]; then
  python3 "$(dirname "$0")/../tests/fixtures/gluster.py" run -- "$0" "$@" && exit
  [ $? = 77 ] || exit 1
  echo "bench_dfs: running without GlusterFS"
fi
file=$(mktemp)
trap 'rm -f "$file"' EXIT
head -c "${SIZE:-256}M" /dev/urandom >"$file"
gfreg -h 127.0.0.1 "$file" /bench_local
gfreg -h 127.0.0.2 "$file" /bench_tcp
urls=("gfarm:///bench_local=local replica" "gfarm:///bench_tcp=TCP replica")
[ -z "${TND_TEST_GLUSTER:-}" ] || urls+=("+${TND_TEST_GLUSTER}bench=two bricks on loopback")
"$@" --fill "${SIZE:-256}" "${urls[@]}"
