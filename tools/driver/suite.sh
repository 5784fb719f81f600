#!/usr/bin/env bash
# In a guest, as root: load the driver, run its tests, unload it, and print a table. A step fails by its status, or by a report of
# the kernel: KASAN, lockdep, a warning, a leak.
# usage: tools/driver/suite.sh [-q] MODULE FOLDER PROGRAM ...
#   FOLDER   where logs go; FOLDER/programs has those of tests/driver
#   PROGRAM  the contract's, which run through the driver
#   -q       a tenth of the time for random operations
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
scale=10
while getopts q option; do
  case $option in
    q) scale=1 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
module=$1 folder=$2
shift 2
programs=$folder/programs
reports='BUG:|KASAN|WARNING:|possible (circular|recursive|irq|deadlock)|Kernel panic|INFO: (task|rcu|trying)|Oops|general protection'
reports+='|suspicious RCU|ODEBUG|list_(add|del) corruption|refcount_t|unreferenced object|leak detector disabled|Unable to handle'
table=() failed=0
# O2G_TEST_DRIVER is for the engine's own tests. In User-Mode Linux a call takes longer than a pause by which a program shows that
# it did other work, so polls do not sleep there.
export TND_O2G_DRIVER=required O2G_TEST_DRIVER=/dev/o2g GTEST_FILTER='-*do_not_sleep_right_after*:a_poll.sleeps*' TND_LOG=${TND_LOG:-warning}

# Runs a command and records how it went. What the kernel reports meanwhile counts as its failure.
step() {
  local name=$1 limit=$2 log began status result=ok reported
  shift 2
  log=$folder/${name//[^a-z0-9]/_}
  dmesg -c >/dev/null
  began=$SECONDS
  status=0
  # A shell of its own, since most steps are functions.
  timeout -k 10 "$limit" bash -c '"$@"' step "$@" >"$log.log" 2>&1 </dev/null || status=$?
  stop_faults
  dmesg -c >"$log.dmesg"
  reported=$(grep -cE "$reports" "$log.dmesg")
  if [ $status != 0 ] || [ "$reported" != 0 ]; then
    result="FAILED: status $status, $reported reports"
    failed=1
    echo "--- $name: $result"
    tail -n 40 "$log.log"
    grep -m 1 -E -A 60 "$reports" "$log.dmesg"
  fi
  table+=("$(printf '%-32s %6d s  %s' "$name" $((SECONDS - began)) "$result")")
  echo "${table[-1]}"
}

# A program that failed leaves them on.
stop_faults() {
  local kind
  for kind in failslab fail_page_alloc fail_usercopy; do echo 0 2>/dev/null >/sys/kernel/debug/$kind/probability; done
}
load() {
  insmod "$module" && [ -c /dev/o2g ] && [ "$(stat -c %a /dev/o2g)" = 666 ]
}
unload() {
  local tries=100
  until rmmod o2g; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
  [ ! -e /dev/o2g ]
}
load_again() {
  local count
  for ((count = 0; count < 2 * scale; count++)); do unload && load || return 1; done
}
slow_network() {
  tc qdisc add dev lo root netem delay 1ms 1ms loss 1% reorder 5% && "$@"
  local status=$?
  tc qdisc del dev lo root
  return "$status"
}
# The handler may write no memory, so calls do.
without_pinned_memory() {
  local limit=/sys/module/o2g/parameters/pin_limit
  echo 0 >"$limit" && "$@"
  local status=$?
  echo 1024 >"$limit"
  return "$status"
}
# A leak is reported by the second scan, since an object must be five seconds old.
scan_leaks() {
  [ -e /sys/kernel/debug/kmemleak ] || return 0
  for _ in 1 2; do
    sleep 6
    echo scan >/sys/kernel/debug/kmemleak || return 1
  done
  cat /sys/kernel/debug/kmemleak
  [ "$(grep -c 'unreferenced object' /sys/kernel/debug/kmemleak)" = 0 ]
}
checkers_work() {
  [ ! -e /proc/lockdep_stats ] || grep -q 'debug_locks: *1' /proc/lockdep_stats
}

export -f load unload load_again slow_network without_pinned_memory scan_leaks checkers_work
export module scale

rm -f "$folder"/*.log "$folder"/*.dmesg
# What the kernel has reported of itself while it booted.
echo clear >/sys/kernel/debug/kmemleak 2>/dev/null
stress=$programs/stress
# User-Mode Linux 6.12 panics in flush_tlb_mm() when a fork() ends early, with and without the module.
forks=
case $(uname -r) in 6.1.*) ;; *) forks=-F ;; esac
step load 30 load
for program in "$@"; do step "contract $(basename "$program")" 300 "$program"; done
for program in "$@"; do
  step "$(basename "$program"), nothing pinned" 300 without_pinned_memory "$program"
done
if [ -n "$(ls -A "$folder/mpi" 2>/dev/null)" ]; then step "MPI programs" 600 tools/driver/mpi.sh "$folder/mpi"; fi
step "calls of the driver" 300 "$programs/ioctl"
step "random operations" 900 "$stress" -t $((5 * scale)) -n 8 -w 4
step "random frames" 900 "$stress" -e -t $((4 * scale)) -n 8
step "random operations, slow network" 900 slow_network "$stress" -t $((4 * scale)) -n 8 -w 2
step "killed processes" 900 "$stress" $forks -k $((2 * scale)) -n 8 -w 3
step "killed processes, frames" 900 "$stress" -e -k $((3 * scale / 2)) -n 8
if [ -e /sys/kernel/debug/failslab ]; then
  step "failing memory" 900 "$stress" $forks -t $((9 * scale)) -n 8 -w 4 -f 5
  step "failing memory, frames" 900 "$stress" -e -t $((6 * scale)) -n 8 -f 5
  step "failing memory, killed" 900 "$stress" $forks -k $((2 * scale)) -n 8 -w 3 -f 5
fi
step "load and unload" 300 load_again
step unload 60 unload
step "leaks of memory" 120 scan_leaks
step "lockdep still runs" 10 checkers_work
printf '\n'
printf '%s\n' "${table[@]}"
exit $failed
