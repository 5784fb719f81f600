#!/usr/bin/env bash
# Install the driver's sources under /usr/src for DKMS, and, where DKMS is installed, let it build the module for the running
# kernel and every later one. Without DKMS the module is installed for the running kernel. With DESTDIR, as packages need, only
# the sources are installed.
# usage: tools/driver/install_module.sh [remove]
set -euo pipefail
cd "$(dirname "$0")/../.."
source=kernel/o2g
name=$(sed -n 's/^PACKAGE_NAME="\(.*\)"/\1/p' $source/dkms.conf)
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' $source/dkms.conf)
target=${DESTDIR:-}/usr/src/$name-$version
loaded_at_boot=${DESTDIR:-}/etc/modules-load.d/tanada-o2g.conf
die() {
  echo "kernel-install: $*" >&2
  exit 1
}
[ -n "${DESTDIR:-}" ] || [ "$(id -u)" = 0 ] || die "only root can install a module: sudo make $([ "${1:-}" = remove ] && echo kernel-uninstall || echo kernel-install)"

has_dkms() { [ -z "${DESTDIR:-}" ] && command -v dkms >/dev/null; }
is_added() { dkms status "$name/$version" 2>/dev/null | grep -q .; }

if [ "${1:-install}" = remove ]; then
  if has_dkms && is_added; then dkms remove "$name/$version" --all; fi
  if [ -z "${DESTDIR:-}" ]; then
    rm -f "/lib/modules/$(uname -r)/updates/o2g.ko"
    depmod
  fi
  rm -rf "$target" "$loaded_at_boot"
  echo "kernel-install: removed $target"
  exit 0
fi

# DKMS builds in a copy of this folder, so the header of the interface is in it.
if has_dkms && is_added; then dkms remove "$name/$version" --all; fi
rm -rf "$target"
mkdir -p "$target/include/tanada" "$(dirname "$loaded_at_boot")"
for file in $source/*.[ch] $source/Kbuild $source/LICENSE $source/dkms.conf; do
  case $file in *.mod.c) ;; *) install -m 644 "$file" "$target/" ;; esac
done
install -m 644 include/tanada/o2g_driver.h "$target/include/tanada/"
echo o2g >"$loaded_at_boot"
echo "kernel-install: the sources are in $target; the module is loaded at boot"
[ -z "${DESTDIR:-}" ] || exit 0

if has_dkms; then
  dkms add "$name/$version"
  dkms install "$name/$version"
else
  echo "kernel-install: DKMS is not installed (apt-get install dkms): this is for the running kernel only" >&2
  module=$(tools/driver/build_module.sh)
  make -s -C "/lib/modules/$(uname -r)/build" M="$(dirname "$module")" INSTALL_MOD_DIR=updates modules_install
  depmod
fi
echo "kernel-install: load it now by: modprobe o2g"
