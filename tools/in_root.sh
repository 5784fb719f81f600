#!/usr/bin/env bash
# Part of tools/test_packages.sh: unpack BASE into ROOT, with PACKAGES as a source of apt, and run
# SCRIPT in it. usage: in_root.sh BASE.tar ROOT PACKAGES SCRIPT
set -euo pipefail
base=$1 root=$2 packages=$3 script=$4
mount -t tmpfs -o size=6g,mode=0755 tmpfs "$root"
tar -xf "$base" -C "$root"
mkdir -p "$root/packages" "$root/test"
mount --bind "$packages" "$root/packages"
cp "$script" "$root/test/run.sh"
cp -r examples "$root/test/examples"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -L /etc/hosts "$root/etc/hosts"
for file in /etc/apt/apt.conf.d/*proxy*; do
  [ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"
done
echo "deb [trusted=yes] file:/packages ./" >"$root/etc/apt/sources.list.d/tanada.list"
# Services do not start in a chroot.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
# shellcheck disable=SC2016  # the shell in the root expands these
exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
  DEBIAN_FRONTEND=noninteractive http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
  sh -euc 'cd /test
    install() { apt-get -qq install -y --no-install-recommends "$@" >/dev/null; }
    # start_daemon PROGRAM SIZE: its process is $daemon, its port $number.
    start_daemon() {
      "$1" --port 0 --size "$2" --port-file port >daemon.log 2>&1 &
      daemon=$!
      tries=0
      until [ -s port ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { cat daemon.log; exit 1; }
        sleep 0.1
      done
      read -r number _ <port
    }
    apt-get -qq update
    . ./run.sh'
