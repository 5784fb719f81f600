#!/usr/bin/env bash
# On a machine with a GPU and the files of tools/gpu/pack_gfarm.sh: start a Gfarm and a GlusterFS,
# and run gfile's contract over them, string matching, and the benchmark bench_gfarm.
# usage: tools/gpu/gfarm.sh FOLDER RESULTS [part ...]
# Parts: local (the contract, with replicas read by descriptors), remote (the contract over TCP),
# gluster (the contract over GlusterFS, which needs root), strings (the example, verified),
# cached, figure7, figure6 and memory (rows of bench_gfarm; the last has the servers' files in
# /dev/shm), libraries (bench_dfs: the host executor against the client libraries, all on two
# processors); all by default. Files come as RESULTS/results.tar.gz. A table is printed last. The
# exit status is 1 if a part failed.
# TIME: seconds of all parts (380). SIZE_MAX: MiB of the largest file (4096). SCRATCH: a folder on a
# disk (FOLDER/scratch), where the servers have their files.
# PROGRAM_END: the end of the programs' names (_cuda). If it is empty, programs of the host executor
# run with small sizes, to try this script without a GPU.
set -uo pipefail
usage="usage: tools/gpu/gfarm.sh FOLDER RESULTS [part ...]"
folder=$(cd "${1:?$usage}" && pwd)
results=$(mkdir -p "${2:?$usage}" && cd "$2" && pwd)
cd "$(dirname "$0")/../.." || exit
shift 2
parts=${*:-local strings remote cached figure7 gluster figure6 memory libraries}
limit=${TIME:-380} end=${PROGRAM_END-_cuda}
size_max=${SIZE_MAX:-4096}
. tools/gpu/parts.sh
export PATH=$folder/sbin:$PATH LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TND_PLUGIN_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
scratch=$(mkdir -p "${SCRATCH:-$folder/scratch}" && cd "${SCRATCH:-$folder/scratch}" && pwd)
placed=()

# Makes a name that servers expect, unless the machine has it. It is removed at the end.
place() { # place NAME COMMAND...
  local name=$1
  shift
  [ ! -e "$name" ] || return 0
  mkdir -p "$(dirname "$name")" && "$@" "$name" && placed+=("$name")
}
write_protocols() { printf 'ip 0 IP\ntcp 6 TCP\nudp 17 UDP\n' >"$1"; }
remove_placed() {
  local name
  for name in "${placed[@]}"; do
    rm -f "$name"
    rmdir --ignore-fail-on-non-empty "$(dirname "$name")"
  done
  rm -rf "$scratch"/tanada-gfarm-* /dev/shm/tanada-gfarm-$$
}
trap remove_placed EXIT
place /etc/protocols write_protocols # libgfarm looks up tcp
if [ -e "$folder/share/gluster_modules" ]; then
  place "$(cat "$folder/share/gluster_modules")" ln -s "$folder/lib/glusterfs"
  place /usr/sbin/glusterfsd ln -s "$folder/sbin/glusterfsd"
fi

with_gfarm() { # with_gfarm [--remote] -- COMMAND...
  exec python3 -B tests/fixtures/gfarm.py run --base "$scratch/tanada-gfarm-$BASHPID" "$@"
}
with_gluster() { # with_gluster COMMAND...: its bricks need a file system with extended attributes
  exec python3 -B tests/fixtures/gluster.py run --base "$scratch" -- "$@"
}
contract() { # contract [--remote]
  with_gfarm "$@" -- "$folder/bin/gfile_contract$end"
}
strings_example() {
  local words=(--dictionary "$folder/share/dictionary.txt" --text "$folder/share/text.txt")
  with_gfarm -- "$folder/bin/string_match$end" "${words[@]}" --store gfarm:///demo --verify --json \
    --output "$work/strings"
}
bench() { # bench NAME OPTIONS...: the rows of a part; `memory` are those of sizes, in /dev/shm
  local name=$1 rows=$1 base=$scratch/tanada-gfarm-$BASHPID gluster=()
  shift
  [ "$name" != memory ] || { rows=sizes && base=/dev/shm/tanada-gfarm-$$; }
  local words=(--only "$rows" --scratch "$scratch" --size-max "$size_max"
    --json "$work/files/gfarm_$name.json")
  [ ! -e "$folder/share/text.txt" ] ||
    words+=(--dictionary "$folder/share/dictionary.txt" --text "$folder/share/text.txt")
  if [ "$rows" != cached ] && [ "$name" != memory ]; then
    words+=(--spool "$base/spool1" --spool "$base/spool2")
  elif [ "$rows" = cached ] && [ -e "$folder/share/gluster_modules" ] && [ "$(id -u)" = 0 ]; then
    gluster=(python3 -B tests/fixtures/gluster.py run --base "$scratch" --)
  fi
  exec "${gluster[@]}" python3 -B tests/fixtures/gfarm.py run --base "$base" -- \
    "$folder/bin/bench_gfarm$end" "${words[@]}" "$@"
}

libraries() {
  export SIZE=256
  [ -n "$end" ] || SIZE=8
  exec taskset -c 0,1 python3 -B tests/fixtures/gfarm.py run \
    --base "$scratch/tanada-gfarm-$BASHPID" -- \
    tools/bench_dfs.sh "$folder/bin/bench_dfs" --rounds 5 --json "$work/files/dfs_host.json"
}

if [ -n "$end" ]; then
  nvidia-smi -L
else
  size_max=8
fi
echo "$(nproc) processors; $(df -h --output=fstype,avail "$scratch" | tail -1) at $scratch"
small=()
[ -n "$end" ] || small=(--text-limit 64 --rounds 1)
for name in $parts; do
  case $name in
    local) part contract_local 100 contract ;;
    remote) part contract_remote 100 contract --remote ;;
    gluster) part contract_gluster 100 with_gluster "$folder/bin/gfile_contract$end" ;;
    strings) part strings 30 strings_example ;;
    cached) part cached 60 bench cached ;;
    figure7) part figure7 60 bench strings "${small[@]}" ;;
    figure6) part figure6 150 bench sizes "${small[@]}" ;;
    memory) part memory 60 bench memory "${small[@]}" ;;
    libraries) part libraries 120 libraries ;;
    *) echo "gfarm.sh: no part is called $name" >&2 ;;
  esac
done
for log in "$work"/files/contract_*.log; do
  [ -e "$log" ] || continue
  basename "$log"
  grep -E '^\[  (PASSED|SKIPPED|FAILED)' "$log" | tail -n 12
done
# The rows of all parts as one file, as bench_gfarm writes it without --only.
join_rows() {
  python3 - "$work/files" <<'PROGRAM'
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
parts = [folder / f"gfarm_{name}.json" for name in ("cached", "strings", "sizes", "memory")]
contents = [json.loads(path.read_text()) for path in parts if path.exists()]
if contents:
    rows = [row for content in contents for row in content["rows"]]
    (folder / "gfarm.json").write_text(json.dumps({**contents[0], "rows": rows}))
    for path in parts:
        path.unlink(missing_ok=True)
PROGRAM
}
join_rows
finish
