#!/usr/bin/env bash
# In a guest with two NVDIMMs (vm.sh -n IMAGE -n IMAGE -k dax=1): pools in persistent memory, in a
# file of a file system with DAX, and in a device of device DAX.
# usage: tools/rdma/dax.sh put|check FOLDER
#   put    makes the file system, puts objects, kills the daemons, puts more of them and resets the
#          guest while it does, as a power failure would
#   check  finds all objects of FOLDER again that were acknowledged
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
tanada=$PWD/build/dev/bin/tanada poold=$PWD/build/dev/bin/tanada-poold
phase=$1 folder=$2
mount=/mnt/pmem
device=(file:/dev/dax1.0 --journal "$mount/journal")
export TND_POOL_TIMEOUT=120s TND_POOL_KEY_FILE=/tmp/keys
die() {
  echo "dax: $*"
  tail -n 20 "$folder"/*.log
  exit 1
}

mount_file_system() {
  if [ "$phase" = put ]; then
    ndctl create-namespace -f -e namespace0.0 -m fsdax >"$folder/ndctl.log" || die "ndctl"
    ndctl create-namespace -f -e namespace1.0 -m devdax >>"$folder/ndctl.log" || die "ndctl"
    mkfs.ext4 -q -b 4096 /dev/pmem0 || die "mkfs"
  fi
  mkdir -p $mount
  mount -t ext4 -o dax=always /dev/pmem0 $mount || die "no file system with DAX"
}

# start NAME BACKING [OPTION ...]
start() {
  local name=$1 backing=$2 waited
  shift 2
  rm -f "$folder/$name.port"
  TND_LOG=info "$poold" --size 64MiB --segment-size 4MiB --port 0 --backing "$backing" \
    --port-file "$folder/$name.port" --key-file /tmp/keys "$@" >>"$folder/$name.log" 2>&1 &
  daemon=$!
  for ((waited = 0; waited < 120; waited++)); do
    [ -s "$folder/$name.port" ] && break
    kill -0 $daemon || die "the daemon of $backing ended"
    sleep 1
  done
  url=pool://127.0.0.1:$(cat "$folder/$name.port")/runs
  grep -q "in persistent memory" "$folder/$name.log" || die "$backing is not persistent memory"
  "$tanada" pool stat "$url" | tee -a "$folder/$name.log"
}

# The contents of object number $1, of 1 byte to 2 MB.
contents() {
  local size=$((($1 * $1 * 1999) % 2000000 + 1))
  head -c $(($1 * 7 + size)) "$folder/bytes" | tail -c $size
}

# put NAME NUMBER
put() {
  contents "$2" >"/tmp/$1" && "$tanada" pool cp -q --durable "/tmp/$1" "$url/$2" || return
  echo "$2" >>"$folder/$1.acknowledged"
}

# check NAME
check() {
  local name=$1 number count=0
  [ -s "$folder/$name.acknowledged" ] || die "$name: nothing was put"
  while read -r number; do
    "$tanada" pool cp -q "$url/$number" "/tmp/$name.copy" || die "$name: object $number is gone"
    contents "$number" | cmp - "/tmp/$name.copy" || die "$name: object $number has other bytes"
    count=$((count + 1))
  done <"$folder/$name.acknowledged"
  ! grep -q '[1-9][0-9]* are damaged' "$folder/$name.log" || die "$name: objects are damaged"
  echo "== $name: $count objects are there: $SECONDS s"
}

# A client of the node maps the device. One of a previous daemon delays puts until it has gone.
check_mapping() {
  local lock putter began=$SECONDS
  "$tanada" pool stat "$url" | grep -q 'path *shared-memory' || die "the device is not mapped"
  kill -9 $daemon
  wait $daemon
  flock -s -o /dev/dax1.0 sleep 600 &
  lock=$!
  sleep 1
  start device "${device[@]}"
  "$tanada" pool stat "$url" | grep -q 'a previous daemon' || die "no client was found"
  check device
  put device 20 &
  putter=$!
  sleep 3
  kill -0 $putter 2>/dev/null || die "a put did not wait"
  kill $lock
  wait $putter || die "a put that waited"
  echo "== device: a put waited for an old client: $((SECONDS - began)) s"
}

# put_and_kill NAME BACKING [OPTION ...]
put_and_kill() {
  local name=$1 number
  start "$@"
  for number in 1 2 3 4 5 6 7 8; do put "$name" $number || die "put of object $number"; done
  kill -9 $daemon
  wait $daemon
  start "$@"
  check "$name"
  [ "$name" != device ] || check_mapping
  # Until the guest ends.
  (
    number=100
    while put "$name" $number; do number=$((number + 1)); done
  ) &
}

# All bytes in memory are lost but those of the NVDIMM.
reset_guest() {
  sleep 15
  echo 0 >/run/rdma/status
  sleep 1
  echo b >/proc/sysrq-trigger
  sleep 60
  die "the guest goes on"
}

# The kernel of the guest does not report the users of connections.
"$tanada" pool key new --namespaces '*' --output /tmp/keys || die "keys"
mount_file_system
if [ "$phase" = put ]; then
  head -c 4000000 /dev/urandom >"$folder/bytes"
  put_and_kill file "file:$mount/pool"
  put_and_kill device "${device[@]}"
  reset_guest
fi
start file "file:$mount/pool"
check file
put file 1000 || die "a put after the reset"
start device "${device[@]}"
check device
put device 1000 || die "a put after the reset"
