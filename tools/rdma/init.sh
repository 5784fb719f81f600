#!/bin/busybox sh
# The guest's first program: loads modules, lays this machine's files under a layer of memory, makes the RDMA device and runs
# the command that tools/rdma/vm.sh has left in its folder.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
die() {
  echo "rdma: guest: $*"
  poweroff -f
}
for module in $(cat /modules/boot); do insmod "/modules/$module" || die "module $module"; done
files=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $files,cache=loose,ro host /host || die "this machine's files"
mount -t 9p -o $files run /run || die "the folder of the run"
mount -t tmpfs tmpfs /upper
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work overlay /new || die "the layer of memory"
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/shm /new/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /new/tmp
mount -t tmpfs tmpfs /new/run
for module in $(cat /modules/rdma); do insmod "/modules/$module" || die "module $module"; done
hostname rdma
echo "127.0.0.1 localhost" >/upper/hosts
echo "10.77.0.1 rdma" >>/upper/hosts
cat /upper/hosts >/new/etc/hosts
nic=$(basename "$(ls -d /sys/bus/virtio/drivers/virtio_net/virtio*/net/* | head -1)")
ip link set lo up
ip link set "$nic" up
ip addr add 10.77.0.1/24 dev "$nic"
chroot /new /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin rdma link add rxe0 type rxe netdev "$nic" || die "rdma link add"
out=/dev/null
for port in /sys/class/virtio-ports/*; do
  if [ "$(cat "$port/name")" = out ]; then out=/dev/$(basename "$port"); fi
done
mkdir -p /new/run/rdma
mount -o bind /run /new/run/rdma
chroot /new /bin/bash /run/rdma/command >"$out" 2>&1 </dev/null
echo $? >/run/status
sync
poweroff -f
