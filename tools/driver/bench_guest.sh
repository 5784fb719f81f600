#!/usr/bin/env bash
# In a guest, as root: prepare what MPI programs need, load the driver, and run a command.
# usage: tools/driver/bench_guest.sh MODULE|- COMMAND [ARGUMENT ...]
set -euo pipefail
module=$1
shift
# Launchers resolve the name of the host. MPIs do not use loopback, so the guest has an address of its own, whose packets take
# loopback all the same.
hostname localhost
ip link add guest0 type veth peer name guest1
ip addr add 10.98.0.1/24 dev guest0
ip link set guest0 up
ip link set guest1 up
ulimit -n 65536 -l unlimited
[ "$module" = - ] || insmod "$module"
"$@"
