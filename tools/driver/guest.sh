#!/usr/bin/env bash
# The driver in a virtual machine with several processors and Debian's kernel, for races between them: random operations of 8
# threads on 64 sockets, 200 kills, 200 loads, and a comparison of what the kernel has allocated before and after. Some twenty
# minutes without /dev/kvm. The machine is that of tools/rdma/vm.sh.
# usage: tools/driver/guest.sh [-q] [-c CPUS] [-t SECONDS]     -q: a tenth of it; -t: of random operations
set -euo pipefail
cd "$(dirname "$0")/../.."
cpus=2 seconds=240 scale=10
while getopts qc:t: option; do
  case $option in
    q) scale=1 ;;
    c) cpus=$OPTARG ;;
    t) seconds=$OPTARG ;;
    *) exit 2 ;;
  esac
done
tools/setup.sh build rdma kernel
folder=$PWD/build/driver/guest
headers=$(tools/driver/guest_headers.sh)
module=$(tools/driver/build_module.sh -c "$folder" "$headers")
tools/driver/build_programs.sh "$folder/programs"
tools/rdma/vm.sh -c "$cpus" -m 4096 -t 3600 -k "slub_debug=FZP,kmalloc-*" "$PWD/tools/driver/guest_suite.sh" "$module" \
  "$folder/programs/stress" $((seconds * scale / 10)) $((20 * scale))
