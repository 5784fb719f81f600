#!/usr/bin/env bash
# Run bench_dfs beside a Gfarm (tests/fixtures/gfarm.py run -- tools/bench_dfs.sh PROGRAM OPTION ...): files of SIZE MiB, 512
# if not said, whose one replica the client reaches through a descriptor and over TCP.
set -euo pipefail
file=$(mktemp)
trap 'rm -f "$file"' EXIT
head -c "${SIZE:-512}M" /dev/urandom >"$file"
gfreg -h 127.0.0.1 "$file" /bench_local
gfreg -h 127.0.0.2 "$file" /bench_tcp
"$@" "gfarm:///bench_local=local replica" "gfarm:///bench_tcp=TCP replica"
