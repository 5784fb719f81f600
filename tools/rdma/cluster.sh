#!/usr/bin/env bash
# In the first of two guests (vm.sh -2): a cluster of two servers, one in each, whose clients reach
# objects over the verbs of Soft-RoCE. Each server is killed once; nothing that was put is lost.
# usage: tools/rdma/cluster.sh
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
tanada=$PWD/build/dev/bin/tanada poold=$PWD/build/dev/bin/tanada-poold
agent=$PWD/tools/rdma/agent.sh
export TND_PLUGIN_PATH=$PWD/build/dev/lib TND_POOL_FABRIC="verbs;ofi_rxm" FI_PROVIDER=verbs,ofi_rxm
export TND_POOL_KEY_FILE=/tmp/keys TND_POOL_TIMEOUT=300s
url=pool://10.77.0.1,10.77.0.2
folder=$(mktemp -d)
ids=()
cleanup() { [ ${#ids[@]} = 0 ] || kill "${ids[@]}" 2>/dev/null; }
trap cleanup EXIT
die() {
  echo "rdma: cluster: $*"
  tail -n 20 "$folder"/*.log
  "$agent" 10.77.0.2 "tail -n 20 /tmp/server.log"
  exit 1
}

options="--size 192MiB --segment-size 8MiB --no-prefault --stripe 2MiB --key-file /tmp/keys"
options+=" --lease 60s --fabric verbs;ofi_rxm"
options+=" --cluster etcd://10.77.0.1:2379/rdma --copies 2"
environment="TND_LOG=info TND_PLUGIN_PATH=$TND_PLUGIN_PATH FI_PROVIDER=$FI_PROVIDER"
environment+=" FI_UNIVERSE_SIZE=64"

start_first() {
  # shellcheck disable=SC2086 # words
  env $environment "$poold" --listen 10.77.0.1 --fabric-node 10.77.0.1 $options \
    >>"$folder/server.log" 2>&1 &
  first=$!
  ids+=("$first")
}
start_second() {
  local line="ulimit -l unlimited; $environment setsid $poold --listen 10.77.0.2"
  line+=" --fabric-node 10.77.0.2 ${options//;/\\;}"
  "$agent" 10.77.0.2 "$line >>/tmp/server.log 2>&1 </dev/null & echo \$! >/tmp/server.pid"
}

# Waits until both servers have all copies.
await_copies() {
  local waited
  for ((waited = 0; waited < 600; waited += 2)); do
    "$tanada" pool cluster status "$url" --json --timeout 60 >"$folder/status" 2>"$folder/error" &&
      [ "$(grep -c '"state": "up"' "$folder/status")" = 2 ] &&
      grep -q '"missing": 0' "$folder/status" && return
    sleep 2
  done
  die "the cluster is not complete: $(cat "$folder/status" "$folder/error")"
}

check_objects() {
  local number
  for number in 1 2 3 4; do
    for size in small large; do
      object=space$number/$size
      "$tanada" pool cp -q "$url/$object" "$folder/copy" || die "get of $object"
      cmp "$folder/$size" "$folder/copy" || die "$object has other bytes"
    done
  done
}

"$tanada" pool key new --namespaces '*' --output /tmp/keys || die "keys"
"$agent" 10.77.0.2 "umask 077; echo '$(cat /tmp/keys)' >/tmp/keys"
etcd --data-dir "$folder/etcd" --listen-client-urls http://10.77.0.1:2379 \
  --advertise-client-urls http://10.77.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
  >"$folder/etcd.log" 2>&1 &
ids+=($!)
start_first
start_second
await_copies
head -c 300000 /dev/urandom >"$folder/small"
head -c 9000000 /dev/urandom >"$folder/large"
for number in 1 2 3 4; do
  for size in small large; do
    object=space$number/$size
    "$tanada" pool cp -q "$folder/$size" "$url/$object" || die "put of $object"
  done
done
check_objects
"$tanada" pool stat "$url/space1" --json | tee "$folder/stat"
grep -q '"path": "rdma"' "$folder/stat" || die "the path is not RDMA"
grep -q "copies to 10.77.0.2:7440 go over verbs" "$folder/server.log" ||
  die "copies do not go over RDMA"
grep "go over TCP" "$folder/server.log" && die "copies go over TCP"
echo "== objects were put, copied and read over RDMA: $SECONDS s"

"$agent" 10.77.0.2 "kill -9 \$(cat /tmp/server.pid)"
check_objects
echo "== the second server was killed: $SECONDS s"
start_second
await_copies
kill -9 "$first"
check_objects
"$tanada" pool cp -q "$folder/small" "$url/space5/small" || die "put after a loss"
echo "== the first server was killed: $SECONDS s"
