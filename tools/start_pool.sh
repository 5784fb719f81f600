# shellcheck shell=bash
# A daemon of the pool for the script that sources this: its process is $pool_pid, its port in $work/port.
pool_pid=""

# start_pool PROGRAM SIZE SECONDS: ends the script where it does not start in so many seconds. $work: a folder for its log.
start_pool() {
  # shellcheck disable=SC2154  # the script that sources this sets $work
  "$1" --port 0 --size "$2" --port-file "$work/port" >"$work/poold.log" 2>&1 &
  pool_pid=$!
  for _ in $(seq $(($3 * 20))); do
    [ -e "$work/port" ] || ! kill -0 "$pool_pid" 2>/dev/null || sleep 0.05
  done
  if [ ! -e "$work/port" ]; then
    echo "$(basename "$0"): the pool's daemon does not start:" >&2
    cat "$work/poold.log" >&2
    exit 1
  fi
}

end_pool() {
  if [ -n "$pool_pid" ] && kill "$pool_pid" 2>/dev/null; then wait "$pool_pid" || true; fi
}
