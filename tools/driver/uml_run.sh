#!/usr/bin/env bash
# Run a command as root of the kernel that tools/driver/uml_build.sh builds. It needs no root of this machine.
# usage: tools/driver/uml_run.sh [-m MIB] [-t SECONDS] [-w FOLDER] COMMAND [ARGUMENT ...]
#
# The command runs in the folder of the call and sees this machine's files, read-only, but those of FOLDER, which it can write.
# /tmp, /run and /dev/shm are empty memory. There is one processor. The exit status is the command's, 124 when the time is over,
# 125 when the kernel died.
set -euo pipefail
folder_at_call=$PWD
tools=$(cd "$(dirname "$0")" && pwd)
memory=2048 limit=300 writable=()
die() {
  echo "uml: $*" >&2
  exit 125
}
while getopts m:t:w: option; do
  case $option in
    m) memory=$OPTARG ;;
    t) limit=$OPTARG ;;
    w) writable+=("$(readlink -f "$OPTARG")") ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || die "a command is missing"
kernel=$("$tools/uml_build.sh")
run=$(mktemp -d)
reader=
cleanup() {
  [ -z "$reader" ] || kill "$reader" 2>/dev/null || true
  rm -rf "$run"
}
trap cleanup EXIT

# The guest's first program. The second console carries the command's output.
{
  cat <<'INIT'
#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t debugfs debug /sys/kernel/debug
for folder in /tmp /run /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $folder; done
ln -sf /proc/self/fd /dev/fd
ip link set lo up
stty raw </dev/tty1
INIT
  for folder in "$run" "${writable[@]}"; do
    printf 'mkdir -p %q 2>/dev/null\nmount -t hostfs none %q -o %q\n' "$folder" "$folder" "$folder"
  done
  printf 'cd %q\n' "$folder_at_call"
  printf '%q ' "$@"
  printf '</dev/null >/dev/tty1 2>&1\necho $? >%q\n' "$run/status"
  echo 'sync; echo o >/proc/sysrq-trigger; sleep 100'
} >"$run/init"
chmod +x "$run/init"

mkfifo "$run/output"
cat "$run/output" &
reader=$!
ended=0
exec 7<>"$run/output"
timeout -k 5 "$limit" "$kernel" "mem=${memory}M" root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$run/init" \
  con=null con0=fd:0,fd:1 con1=null,fd:7 log_buf_len=4M quiet loglevel=4 </dev/null >"$run/console" 2>&1 || ended=$?
exec 7>&-
wait "$reader" || true
reader=
if [ -s "$run/status" ]; then exit "$(cat "$run/status")"; fi
cat "$run/console" >&2
if [ $ended = 124 ] || [ $ended = 137 ]; then
  echo "uml: not finished after $limit s" >&2
  exit 124
fi
die "the kernel ended ($ended) before the command"
