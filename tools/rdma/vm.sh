#!/usr/bin/env bash
# Run a command in a virtual machine that has an RDMA device made of software (Soft-RoCE, rxe) under
# a stock Debian kernel. It needs no RDMA card, no module in this machine's kernel, no /dev/kvm and
# no root: QEMU translates, some 10 to 20 times slower than this machine runs.
# usage: tools/rdma/vm.sh [-2] [-c CPUS] [-m MIB] [-t SECONDS] [-k WORDS] [-w FOLDER] [-n IMAGE] ...
#   COMMAND [ARGUMENT ...]
#
# The command runs as root of the guest in the folder of the call. It sees this machine's files;
# what it writes stays in the guest's memory and is lost, except in FOLDER. Its address is 10.77.0.1, its
# standard input empty. The exit status is the command's, 124 when the time is over, 125 when the
# guest did not come up. RDMA_ACCEL=kvm uses /dev/kvm. WORDS are added to the command line of the
# guest's kernel.
#
# Each -n is an NVDIMM, whose bytes are those of the file IMAGE and stay there. The word dax=1 loads
# its modules. A command that writes its status to /run/rdma/status may end the guest itself, as a
# power failure does.
#
# With -2 there are two guests, joined by a network of their own. The command runs in the first;
# tools/rdma/agent.sh, which a launcher takes for ssh, runs others in the second, 10.77.0.2, which
# ends with the first. CPUs and memory are those of each.
set -euo pipefail
cd_at_call=$PWD
cd "$(dirname "$0")/../.."
here=$PWD/tools/rdma
cache=$PWD/build/rdma
cpus=2 memory=2048 limit=600 guests=1 words='' writable='' images=()
die() {
  echo "rdma: $*" >&2
  exit 125
}
while getopts 2c:m:t:k:w:n: option; do
  case $option in
    2) guests=2 ;;
    c) cpus=$OPTARG ;;
    m) memory=$OPTARG ;;
    t) limit=$OPTARG ;;
    k) words=$OPTARG ;;
    w) writable=$(cd "$OPTARG" && pwd) ;;
    n) images+=("$(realpath "$OPTARG")") ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || die "a command is missing"
tools/setup.sh rdma
PATH=$PATH:/usr/sbin:/sbin
# shellcheck disable=SC2034  # read by their names
boot_modules="virtio_pci virtio_console virtio_net 9pnet_virtio 9p overlay"
# shellcheck disable=SC2034
rdma_modules="crc32_generic crc32_pclmul rdma_rxe ib_uverbs rdma_ucm veth sch_netem sch_tbf"
# shellcheck disable=SC2034
nfs_modules="nfsd nfsv4 rpcrdma" # loaded with the word nfs=1
# shellcheck disable=SC2034
dax_modules="crc32c_generic ext4 nfit nd_pmem dax_pmem device_dax" # with the word dax=1

# Debian's kernel package, unpacked, never installed.
fetch_kernel() {
  local package
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -1)
  [ -n "$package" ] || die "apt knows no package linux-image-amd64: the guest's kernel is Debian's"
  rm -rf "$cache/kernel" && mkdir -p "$cache/kernel"
  (cd "$cache" && rm -f linux-image-*.deb && apt-get -q download "$package" >"$cache/fetch.log" 2>&1) ||
    die "apt-get download $package failed, see $cache/fetch.log"
  dpkg-deb -x "$cache"/linux-image-*.deb "$cache/kernel"
  rm -f "$cache"/linux-image-*.deb
  # Debian 12 keeps modules in lib, later ones in usr/lib.
  mkdir -p "$cache/kernel/lib"
  [ -d "$cache/kernel/lib/modules" ] || ln -s ../usr/lib/modules "$cache/kernel/lib/modules"
  local version
  version=$(basename "$cache"/kernel/lib/modules/*)
  depmod -b "$cache/kernel" "$version"
  unpack_kernel "$cache/kernel/boot/vmlinuz-$version" "$cache/vmlinux" ||
    cp "$cache/kernel/boot/vmlinuz-$version" "$cache/vmlinux"
  echo "$version" >"$cache/version"
}

# An uncompressed kernel starts by its PVH entry: translated code would take half a minute to unpack it. The compressed part
# is an xz stream, which begins with fd 37 7a 58 5a 00.
unpack_kernel() {
  local offset
  for offset in $(LC_ALL=C grep -obUaP '\xfd7zXZ\x00' "$1" | cut -d: -f1); do
    tail -c +$((offset + 1)) "$1" | xz -dc >"$2" 2>/dev/null || true
    [ "$(head -c 4 "$2" | tail -c 3)" = ELF ] && return 0
  done
  return 1
}

# Files of modules, those they need first. Names that are built in have none.
module_files() {
  local list=$cache/kernel/lib/modules/$version/modules.dep name line file
  for name in "$@"; do
    line=$(grep -E "^[^:]*/${name//[-_]/[-_]}\.ko[^:]*:" "$list") || continue
    for file in ${line#*:}; do echo "$file"; done | tac
    echo "${line%%:*}"
  done | awk '!seen[$0]++'
}

make_initramfs() {
  local root=$cache/initramfs kind file
  rm -rf "$root" && mkdir -p "$root"/{bin,proc,sys,dev,modules,host,run,upper,new}
  cp "$(command -v busybox)" "$root/bin/busybox"
  cp "$here/init.sh" "$root/init"
  for kind in boot rdma nfs dax; do
    local names=${kind}_modules
    : >"$root/modules/$kind"
    for file in $(module_files ${!names}); do
      cp "$cache/kernel/lib/modules/$version/$file" "$root/modules/"
      basename "$file" >>"$root/modules/$kind"
    done
  done
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$cache/initramfs.cpio"
  rm -rf "$root"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock -w 600 9 || die "another one has been preparing the guest for ten minutes"
[ -s "$cache/version" ] || fetch_kernel
version=$(cat "$cache/version")
if [ ! "$cache/initramfs.cpio" -nt "$here/vm.sh" ] || [ ! "$cache/initramfs.cpio" -nt "$here/init.sh" ]; then make_initramfs; fi
flock -u 9

run=$(mktemp -d)
ids=()
cleanup() {
  [ ${#ids[@]} = 0 ] || kill "${ids[@]}" 2>/dev/null || true
  wait
  rm -rf "$run"
}
trap cleanup EXIT
# rxe has completion queues of at most 32,767 entries, and rxm asks for its number times FI_UNIVERSE_SIZE, 256 by default.
{
  printf 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root FI_UNIVERSE_SIZE=%q\n' "${FI_UNIVERSE_SIZE:-64}"
  printf 'ulimit -l unlimited\ncd %q || exit 125\n' "$cd_at_call"
} >"$run/serve"
{
  cat "$run/serve"
  printf '%q ' "$@"
  echo
} >"$run/command"
printf '%s' "$writable" >"$run/writable"
printf 'read -r line\neval "$line"\n' >>"$run/serve"

# What QEMU takes for NVDIMMs.
nvdimm='' slots='' dimms=() total=0
for image in "${images[@]}"; do
  size=$(stat -c %s "$image")
  number=$((${#dimms[@]} / 4))
  total=$((total + (size >> 20)))
  dimms+=(-object "memory-backend-file,id=image$number,share=on,mem-path=${image//,/,,},size=$size"
    -device "nvdimm,id=nvdimm$number,memdev=image$number")
done
if [ ${#images[@]} -gt 0 ]; then
  nvdimm=,nvdimm=on
  slots=,slots=${#images[@]},maxmem=$((memory + total + 1024 * ${#images[@]}))M
fi

# Guest number $1. (Without no_timer_check a kernel that this machine lets wait takes its timer for broken.)
start_guest() {
  local cable=hubport,id=net,hubid=0
  [ $guests = 1 ] || cable="dgram,id=net,local.type=unix,local.path=$run/cable$1,remote.type=unix,remote.path=$run/cable$((3 - $1))"
  local shares=()
  local folder="local,id=writable,path=${writable//,/,,},security_model=none"
  local device="virtio-9p-pci,fsdev=writable,mount_tag=writable"
  [ -z "$writable" ] || shares=(-fsdev "$folder" -device "$device")
  timeout -k 5 "$limit" qemu-system-x86_64 -machine "pc$nvdimm" \
    -accel "${RDMA_ACCEL:-tcg,thread=multi}" -cpu max,la57=off \
    -smp "$cpus" -m "$memory$slots" "${dimms[@]}" \
    -nodefaults -no-user-config -no-reboot -display none \
    -kernel "$cache/vmlinux" -initrd "$cache/initramfs.cpio" \
    -append "console=ttyS0 quiet loglevel=4 mitigations=off nokaslr random.trust_cpu=on no_timer_check panic=-1 guest=$1 guests=$guests $words" \
    -serial "file:$run/console$1" -device virtio-serial-pci \
    -chardev "file,id=out,path=$run/out" -device virtserialport,chardev=out,name=out \
    -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host \
    -fsdev "local,id=run,path=$run,security_model=none" -device virtio-9p-pci,fsdev=run,mount_tag=run \
    "${shares[@]}" -netdev "$cable" -device "virtio-net-pci,netdev=net,host_mtu=9000,romfile=,mac=52:54:00:77:00:0$1" \
    -device virtio-rng-pci </dev/null >"$run/qemu$1" 2>&1 &
  ids+=($!)
}

mkfifo "$run/out"
cat "$run/out" &
reader=$!
start_guest 1
first=$!
[ $guests = 1 ] || start_guest 2
ended=0
wait "$first" || ended=$?
for each in "${ids[@]:1}"; do kill "$each" 2>/dev/null && wait "$each" 2>/dev/null || true; done
ids=()
exec 8<>"$run/out" 8>&- # lets the reader go when nobody has written
wait "$reader" || true
if [ -s "$run/status" ]; then exit "$(cat "$run/status")"; fi
if [ $ended = 124 ] || [ $ended = 137 ]; then
  echo "rdma: not finished after $limit s" >&2
  exit 124
fi
cat "$run"/qemu? >&2
tail -n 15 "$run"/console? >&2 || true
die "the guest did not come up (qemu: $ended)"
