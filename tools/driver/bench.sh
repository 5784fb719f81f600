#!/usr/bin/env bash
# Figure 5 of the paper, what a message costs its receiver, and delays of the network: bench/o2g/driver.py in a User-Mode Linux
# without sanitizers. Writes o2g_driver.json, o2g_driver_delays.json and o2g_driver.svg. An hour on an idle machine.
# usage: tools/driver/bench.sh [-q] [-d] [-v] [-c CPUS] [-r ROWS] [-t WORD,...] [-n NPB3.4-MPI] [-b FOLDER] [-o FOLDER] [-- OPTION ...]
#   -q         quick, to show that all works
#   -d         only the delays
#   -v         in a virtual machine with Debian's kernel and two processors, or CPUS, which QEMU translates: ranks run at the
#              same time, but compute some ten times slower
#   -r ROWS    of bench/o2g/driver.py, only these, and not the delays
#   -t WORDS   only transports whose name contains one of them; without "driver", the module is not built
#   -n FOLDER  the source of the NAS Parallel Benchmarks 3.4 for MPI, which is copied; needed once
#   -b FOLDER  the build folder of the provider, build/release unless given, and configured if it is not there
#   -o FOLDER  where results go, docs/measurements unless given
#   OPTION     of bench/o2g/driver.py
set -euo pipefail
cd "$(dirname "$0")/../.."
quick=() rows='' machine=uml cpus=2 words='' source='' build=build/release results=docs/measurements rounds=3 limit=14400
kinds=(o2g_driver o2g_driver_delays)
while getopts qdvc:r:t:n:b:o: option; do
  case $option in
    q) quick=(--quick) rounds=1 ;;
    d) kinds=(o2g_driver_delays) ;;
    v) machine=vm ;;
    c) cpus=$OPTARG ;;
    r) rows=$OPTARG kinds=(o2g_driver) ;;
    t) words=$OPTARG ;;
    n) source=$(cd "$OPTARG" && pwd) ;;
    b) build=$OPTARG ;;
    o) results=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
export UML_PLAIN=1
run_in_uml() { tools/driver/uml_run.sh "$@"; }
run_in_vm() { tools/rdma/vm.sh -c "$cpus" "$@"; }
# Prints the module for the kernel of the guest.
module_of() {
  if [ "$1" = vm ]; then
    tools/driver/build_module.sh -c "$folder" "$(tools/driver/guest_headers.sh)"
  else
    tools/driver/build_module.sh -c "$folder" "$(dirname "$(tools/driver/uml_build.sh)")" ARCH=um
  fi
}
tools/setup.sh build kernel mpi
tools/mpi/install.sh mpich5
if [ ! -f "$build/CMakeCache.txt" ]; then
  cmake --preset release -B "$build" -DTANADA_UNITY=ON -DTANADA_CUDA=OFF >&2
fi
cmake --build "$build" --parallel "$(nproc)" --target o2g-fi bench_o2g_cost >&2
build=$(cd "$build" && pwd)
folder=$PWD/build/driver/bench
programs=$folder/programs
mkdir -p "$programs" "$results"
options=(--provider "$build/lib" --cost "$build/bin/bench_o2g_cost" --programs "$programs" --rounds "$rounds"
  --transports "$words" "${quick[@]}" "$@")
if [ -n "$source" ]; then bench/o2g/driver.py --build --npb "$source" "${options[@]}"; else bench/o2g/driver.py --build "${options[@]}"; fi
module=-
case ${words:-driver} in *driver*) module=$(module_of "$machine") ;; esac

for kind in "${kinds[@]}"; do
  [ "$kind" = o2g_driver ] || rows=delays
  cp /proc/loadavg "$programs/load"
  "run_in_$machine" -m 4096 -t "$limit" -w "$folder" tools/driver/bench_guest.sh "$module" \
    bench/o2g/driver.py --rows "${rows:-npb,receiver,calls,overlap,match,sockets}" --json "$folder/$kind.json" "${options[@]}"
  cp "$folder/$kind.json" "$results/"
done
[ -f "$folder/o2g_driver.json" ] || exit 0
. tools/environment.sh
plot=build/driver/plot
[ -x $plot/bin/python ] || make_environment $plot matplotlib==3.10.7
$plot/bin/python bench/o2g/plot_driver.py "$results/o2g_driver.json" "$results/o2g_driver.svg"
