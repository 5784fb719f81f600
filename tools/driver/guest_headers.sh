#!/usr/bin/env bash
# Print the folder in which modules for the kernel of tools/rdma/vm.sh are built. Installs Debian's headers if it is not there.
# usage: tools/driver/guest_headers.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh rdma kernel >&2
[ -s build/rdma/version ] || tools/rdma/vm.sh true
version=$(cat build/rdma/version)
headers=/lib/modules/$version/build
if [ ! -e "$headers/Makefile" ]; then
  echo "guest: installing linux-headers-$version, the headers of the guest's kernel" >&2
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 -qq install -y --no-install-recommends \
    "linux-headers-$version" >/dev/null </dev/null
fi
echo "$headers"
