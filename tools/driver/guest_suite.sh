#!/usr/bin/env bash
# In the guest of tools/driver/guest.sh: random operations, kills, loads, and what the kernel has allocated before and after.
# usage: tools/driver/guest_suite.sh MODULE STRESS SECONDS COUNT
set -uo pipefail
module=$1 stress=$2 seconds=$3 count=$4
reports='BUG:|WARNING:|Kernel panic|INFO: (task|rcu)|Oops|general protection|list_(add|del) corruption|refcount_t|Redzone|Poison'
failed=0
mount -t debugfs debug /sys/kernel/debug 2>/dev/null

step() {
  local name=$1 began=$SECONDS status=0 result=ok
  shift
  dmesg -c >/dev/null
  "$@" </dev/null || status=$?
  if [ $status != 0 ] || dmesg | grep -qE "$reports"; then
    result="FAILED: status $status"
    failed=1
    dmesg | grep -m 1 -E -B 5 -A 60 "$reports"
  fi
  printf '%-32s %6d s  %s\n' "$name" $((SECONDS - began)) "$result"
}
load_and_unload() {
  local number
  for ((number = 0; number < count; number++)); do insmod "$module" && rmmod o2g || return 1; done
}
# Sockets in use, and objects of the caches that a leak would fill, after what the kernel frees late is freed.
allocated() {
  for _ in 1 2 3; do
    echo 3 >/proc/sys/vm/drop_caches
    sleep 2
  done
  grep -E '^(TCP|kmalloc-|TCPv6|sock_inode_cache|mm_struct|filp|pid|task_struct|eventfd|vm_area_struct|signal_cache)' /proc/slabinfo |
    awk '{ print $1, $2 * $4 / 1024 }'
  awk '/^(VmallocUsed|PageTables|Unevictable|Mlocked|AnonPages):/ { print $1, $2 } ' /proc/meminfo
  awk '/^nr_foll_pin_(acquired|released)/ { print }' /proc/vmstat
}
compare() {
  allocated >/tmp/after
  awk 'NR == FNR { before[$1] = $2; next }
    { printf "%-24s %10d %10d\n", $1, before[$1], $2
      if ($1 ~ /^nr_foll_pin/) pins[$1] = $2 - before[$1]
      else if ($2 > before[$1] * 1.25 + 1024) { print $1 " grew by " $2 - before[$1] " KiB"; failed = 1 } }
    END { if (pins["nr_foll_pin_acquired"] != pins["nr_foll_pin_released"]) { print "pages stay pinned"; failed = 1 }
      exit failed }' /tmp/before /tmp/after
}
operations() { "$stress" -t "$seconds" -n 64 -w 8; }
frames() { "$stress" -e -t $((seconds / 4)) -n 64; }
kills() { "$stress" -k $((count * 3 / 4)) -n 16 -w 4 && "$stress" -e -k $((count / 4)) -n 16; }

echo "kernel $(uname -r), $(nproc) processors, module $(modinfo -F srcversion "$module")"
step load insmod "$module"
# Caches fill at the first use.
step "first use" "$stress" -t 10 -n 64 -w 8
allocated >/tmp/before
step "random operations" operations
step "random frames" frames
step "kills" kills
step "memory in use" compare
step unload rmmod o2g
step "loads" load_and_unload
exit $failed
