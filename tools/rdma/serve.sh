# shellcheck shell=bash
# In the first of two guests (vm.sh -2 -k nfs=1), sourced: the second serves a pool, and a folder in
# memory by NFS 4. Sets bin and server, and folders, the options of bench_pool for the NFS mounts
# /mnt/tcp and /mnt/rdma; it is empty without NFS. keys of the pool: TND_POOL_KEY_FILE.
server=10.77.0.2 agent=$PWD/tools/rdma/agent.sh bin=$PWD/build/dev/bin
export TND_PLUGIN_PATH=$PWD/build/dev/lib FI_PROVIDER=verbs,ofi_rxm TND_POOL_KEY_FILE=/tmp/keys
die() {
  echo "rdma: $*"
  "$agent" $server "tail -n 20 /tmp/server.log"
  exit 1
}

"$bin/tanada" pool key new --namespaces '*' --output /tmp/keys || die "keys"
"$agent" $server "umask 077; echo '$(cat /tmp/keys)' >/tmp/keys"
# The agent runs one line.
serve_pool="ulimit -l unlimited; TND_LOG=info TND_PLUGIN_PATH=$TND_PLUGIN_PATH"
serve_pool+=" FI_PROVIDER=$FI_PROVIDER FI_UNIVERSE_SIZE=64"
serve_pool+=" setsid $bin/tanada-poold --size 1GiB --listen $server --key-file /tmp/keys"
serve_pool+=" --fabric verbs\\;ofi_rxm --fabric-node $server >/tmp/server.log 2>&1 </dev/null &"
"$agent" $server "$serve_pool"
# NFS 4 on a folder in memory: `async`, so that its server does not wait for a disk either.
serve_nfs="mkdir -p /srv/memory /var/lib/nfs; mount -t tmpfs -o size=1g tmpfs /srv/memory"
serve_nfs+="; mount -t nfsd nfsd /proc/fs/nfsd"
serve_nfs+="; touch /var/lib/nfs/etab /var/lib/nfs/rmtab; rpc.mountd -N 2 -N 3"
export_options=rw,async,no_root_squash,no_subtree_check,insecure,fsid=0
serve_nfs+="; exportfs -o $export_options 10.77.0.0/24:/srv/memory"
serve_nfs+="; rpc.nfsd -N 3 -V 4 -G 10 -L 10 8; echo 'rdma 20049' >/proc/fs/nfsd/portlist"
folders=()
if command -v rpc.nfsd exportfs mount.nfs4 >/dev/null; then
  "$agent" $server "{ $serve_nfs; } 2>&1" >/tmp/nfs.log
  mkdir -p /mnt/tcp /mnt/rdma
  tries=30
  until mount -t nfs4 -o vers=4.2,proto=tcp $server:/ /mnt/tcp 2>>/tmp/nfs.log; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || die "NFS: $(cat /tmp/nfs.log)"
    sleep 2
  done
  folders=(--nfs /mnt/tcp)
  if mount -t nfs4 -o vers=4.2,rdma,port=20049 $server:/ /mnt/rdma 2>>/tmp/nfs.log; then
    folders+=(--nfs-rdma /mnt/rdma)
  else
    echo "rdma: no NFS over RDMA: $(tail -n 1 /tmp/nfs.log)"
  fi
else
  echo "rdma: no NFS: the packages nfs-kernel-server and nfs-common are not installed"
fi
tries=120
until "$bin/tanada" pool ls "pool://$server/link" >/dev/null 2>/tmp/error; do
  tries=$((tries - 1))
  [ $tries -gt 0 ] || die "the pool: $(cat /tmp/error)"
  sleep 1
done
