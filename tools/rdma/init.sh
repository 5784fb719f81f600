#!/bin/busybox sh
# The first program of guest number $guest of $guests: loads modules, lays this machine's files under a layer of memory, makes the
# RDMA device, and runs the command that tools/rdma/vm.sh has left in its folder, or, in the second, what the first asks for.
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
writable=$(cat /run/writable)
[ -z "$writable" ] || mount -t 9p -o $files writable "/new$writable" || die "the writable folder"
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/shm /new/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /new/tmp
mount -t tmpfs tmpfs /new/run
for module in $(cat /modules/rdma); do insmod "/modules/$module" || die "module $module"; done
if [ "${nfs:-}" = 1 ]; then
  for module in $(cat /modules/nfs); do
    name=$(echo "${module%.ko}" | tr - _)
    grep -q "^$name " /proc/modules || insmod "/modules/$module" || die "module $module"
  done
fi
if [ "${dax:-}" = 1 ]; then
  for module in $(cat /modules/dax); do
    name=$(echo "${module%.ko}" | tr - _)
    grep -q "^$name " /proc/modules || insmod "/modules/$module" || die "module $module"
  done
fi
# shellcheck disable=SC2154  # the kernel's command line sets guest and guests
hostname "rdma$guest"
echo "127.0.0.1 localhost" >/upper/hosts
# shellcheck disable=SC2154
for number in $(seq "$guests"); do echo "10.77.0.$number rdma$number" >>/upper/hosts; done
cat /upper/hosts >/new/etc/hosts
nic=$(basename "$(ls -d /sys/bus/virtio/drivers/virtio_net/virtio*/net/* | head -1)")
ip link set lo up
ip link set "$nic" up
ip addr add "10.77.0.$guest/24" dev "$nic"
chroot /new /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin rdma link add rxe0 type rxe netdev "$nic" || die "rdma link add"
out=/dev/null
for port in /sys/class/virtio-ports/*; do
  if [ "$(cat "$port/name")" = out ]; then out=/dev/$(basename "$port"); fi
done
mkdir -p /new/run/rdma
mount -o bind /run /new/run/rdma
[ "$guest" = 1 ] || exec chroot /new /bin/busybox nc -ll -p 22 -e /bin/bash /run/rdma/serve
if [ "$guests" = 2 ]; then
  tries=90
  until nc -w 1 10.77.0.2 22 </dev/null >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || die "the second guest"
    sleep 1
  done
fi
chroot /new /bin/bash /run/rdma/command >"$out" 2>&1 </dev/null
echo $? >/run/status
sync
poweroff -f
