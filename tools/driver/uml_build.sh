#!/usr/bin/env bash
# Build a User-Mode Linux kernel, a Linux that runs as a process, with sanitizers and fault injection, and print its path. The
# source is Debian's linux-source-6.1 or 6.12. The first call takes some fifteen minutes on two processors; later ones take none.
# usage: tools/driver/uml_build.sh
#   UML_CACHE=FOLDER  where the kernel is kept; ~/.cache/tanada/uml unless given
#   UML_VERSION=6.12   the other kernel that the driver supports; 6.1 unless given
#   UML_PLAIN=1       a kernel without sanitizers and fault injection, for measurements of time
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${UML_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tanada/uml}
version=${UML_VERSION:-6.1}
source=$cache/linux-source-$version
plain=${UML_PLAIN:-0}
variant=$([ "$plain" = 1 ] && echo plain || echo kasan)
# Stacks of 16 KiB, or with KASAN 64 KiB.
stack_order=$([ "$plain" = 1 ] && echo 2 || echo 4)
tree=$cache/$variant
if [ "$version" != 6.1 ]; then tree=$tree-$version; fi
log=$tree.log
die() {
  echo "uml: $*" >&2
  exit 1
}
case $cache in *[[:blank:]]*) die "the build of a kernel supports no blank in the name of its folder, $cache: set UML_CACHE" ;; esac
tools/setup.sh kernel >&2

# What the module and its tests need, as a Debian kernel has it.
features="EXPERT MODULES MODULE_UNLOAD NET INET PACKET UNIX NETDEVICES NET_CORE VETH TUN NET_SCHED NET_SCH_NETEM NET_SCH_TBF HOSTFS
  DEVTMPFS TMPFS CGROUPS MEMCG NAMESPACES NET_NS USER_NS EVENTFD EPOLL HIGH_RES_TIMERS MMU_NOTIFIER GENERIC_ALLOCATOR SLUB SLUB_DEBUG
  DEBUG_FS DEBUG_INFO_NONE"
# What reports mistakes.
checks="KASAN KASAN_INLINE KASAN_VMALLOC PROVE_LOCKING DEBUG_ATOMIC_SLEEP DEBUG_KMEMLEAK DEBUG_LIST DEBUG_VM DEBUG_OBJECTS
  DEBUG_OBJECTS_WORK DEBUG_OBJECTS_TIMERS DEBUG_OBJECTS_FREE DETECT_HUNG_TASK"
faults="FAULT_INJECTION FAULT_INJECTION_DEBUG_FS FAULT_INJECTION_STACKTRACE_FILTER FAILSLAB FAIL_PAGE_ALLOC FAULT_INJECTION_USERCOPY"
if [ "$plain" = 1 ]; then
  checks="" faults=""
fi
# TLS takes sockets that the module would refuse. The others only make the build longer.
disabled="TLS SLAB DEBUG_INFO DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT DEBUG_KMEMLEAK_AUTO_SCAN BLOCK EXT4_FS REISERFS_FS AUTOFS_FS AUTOFS4_FS
  ISO9660_FS QUOTA INPUT HID SERIO WLAN WIRELESS ETHERNET PPP SLIP DUMMY SUSPEND IKCONFIG UML_NET IPV6 PTP_1588_CLOCK PPS BINFMT_MISC
  MISC_FILESYSTEMS NETWORK_FILESYSTEMS NLS BLK_DEV DNOTIFY CRYPTO_HW BSD_PROCESS_ACCT"

# The source package, unpacked, never installed.
fetch_source() {
  rm -rf "$source" "$cache/package"
  (cd "$cache" && rm -f linux-source-"$version"_*.deb && apt-get -q download "linux-source-$version" >"$cache/fetch.log" 2>&1) ||
    die "apt-get download linux-source-$version failed, see $cache/fetch.log"
  dpkg-deb -x "$cache"/linux-source-"$version"_*.deb "$cache/package"
  tar -C "$cache" -xf "$cache/package/usr/src/linux-source-$version.tar.xz"
  rm -rf "$cache/package" "$cache"/linux-source-"$version"_*.deb
}

# Options that have no prompt, since only others select them, and options that are refused for reasons without meaning here:
# User-Mode Linux is not preempted but counts all the same, and has frame pointers.
open_options() {
  sed -i '/^config MMU_NOTIFIER$/{n;s/^\tbool$/\tbool "MMU notifiers"/}' "$source/mm/Kconfig"
  sed -i -e '/^config GENERIC_ALLOCATOR$/{n;s/^\tbool$/\tbool "Allocator of special memory"/}' "$source/lib/Kconfig"
  sed -i -e '/^config DEBUG_ATOMIC_SLEEP$/,/help/{/depends on !ARCH_NO_PREEMPT/d}' \
    -e '/^config FAULT_INJECTION_STACKTRACE_FILTER$/,/help/{/depends on !X86_64/d}' "$source/lib/Kconfig.debug"
}

make_kernel() { make -s -C "$source" O="$tree" ARCH=um "$@"; }

configure() {
  local name
  make_kernel defconfig >/dev/null
  for name in $disabled; do "$source/scripts/config" --file "$tree/.config" -d "$name"; done
  for name in $features $checks $faults; do "$source/scripts/config" --file "$tree/.config" -e "$name"; done
  # Softirqs run on the stack of the current thread, and KASAN makes frames larger.
  "$source/scripts/config" --file "$tree/.config" --set-val KERNEL_STACK_ORDER "$stack_order"
  make_kernel olddefconfig >/dev/null
  for name in $features $checks $faults; do
    grep -qx "CONFIG_$name=y" "$tree/.config" || die "the kernel's configuration refused $name"
  done
}

wanted="$features $checks $faults not: $disabled, stacks of order $stack_order"
is_built() { [ "$(cat "$tree/done" 2>/dev/null)" = "$wanted" ]; }
if is_built; then
  echo "$tree/linux"
  exit 0
fi
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -w 3600 9 || die "another one has been building the kernel for an hour"
[ -e "$source/Makefile" ] || fetch_source
if ! is_built; then
  echo "uml: building a kernel in $tree, which takes some fifteen minutes" >&2
  mkdir -p "$tree"
  open_options
  configure
  make_kernel -j"$(nproc)" linux modules >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "the kernel did not build, see $log"
  }
  echo "$wanted" >"$tree/done"
fi
echo "$tree/linux"
