#!/usr/bin/env bash
# Build o2g.ko for a kernel, and print its path.
# usage: tools/driver/build_module.sh [-c FOLDER] [KDIR [VARIABLE=VALUE ...]]
#   KDIR       the build folder of the kernel, /lib/modules/RELEASE/build of the running one unless given
#   -c FOLDER  build a copy of the sources in FOLDER, so that kernel/o2g keeps its module of another kernel
set -euo pipefail
copy=
while getopts c: option; do
  case $option in
    c) copy=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ -z "$copy" ] || copy=$(mkdir -p "$copy" && cd "$copy" && pwd)
kernel=${1:-/lib/modules/$(uname -r)/build}
[ $# -eq 0 ] || shift
[ ! -d "$kernel" ] || kernel=$(cd "$kernel" && pwd)
cd "$(dirname "$0")/../.."
die() {
  echo "kernel: $*" >&2
  exit 1
}

if [ ! -e "$kernel/Makefile" ]; then
  echo "kernel: $kernel has no headers of a kernel. Debian and Ubuntu install those of the running one by" >&2
  echo "  sudo apt-get install linux-headers-$(uname -r)" >&2
  die "Those of another one are named by: make kernel KDIR=/lib/modules/RELEASE/build"
fi
folder=$PWD/kernel/o2g
# A copy keeps the times of the files, so that only what has changed is compiled.
if [ -n "$copy" ]; then
  folder=$copy/kernel/o2g
  mkdir -p "$folder" "$copy/include/tanada"
  for file in kernel/o2g/*.[ch] kernel/o2g/Kbuild include/tanada/o2g_driver.h; do
    case $file in *.mod.c) ;; *) cp -u --preserve=timestamps "$file" "$copy/$file" ;; esac
  done
fi
case $kernel$folder in
  *[[:blank:]]*) die "modules cannot be built in a folder whose name has a blank, $folder: use tools/driver/build_module.sh -c" ;;
esac
make -s -C "$kernel" M="$folder" "$@" modules >&2
echo "$folder/o2g.ko"
