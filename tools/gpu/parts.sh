# shellcheck shell=bash disable=SC2154
# Parts of a script that has a machine for a short time: each has a limit of its own, and none needs
# another. The script that sources this sets $results, a folder, and $limit, the seconds of all
# parts. After each part, RESULTS/results.tar.gz has the files of all parts so far.

begin=$SECONDS
work=$(mktemp -d)
summary=()
failed=0
mkdir -p "$results"
results=$(cd "$results" && pwd)
mkdir -p "$work/files"

# Ends processes that a part has left, also those in sessions of their own.
end_left() { # end_left MARK
  local process
  for process in /proc/[0-9]*; do
    process=${process#/proc/}
    [ "$process" = $$ ] || ! grep -qz "^GPU_PART=$1\$" "/proc/$process/environ" 2>/dev/null ||
      kill -9 "$process" 2>/dev/null || true
  done
}

# The command may be a function, which has the seconds as $LIMIT.
part() { # part NAME LIMIT_S COMMAND...: output goes to NAME.log of the results
  local name=$1 most=$2 start=$SECONDS rc
  shift 2
  local left=$((limit - (SECONDS - begin)))
  [ "$most" -le "$left" ] || most=$left
  if [ "$most" -lt 5 ]; then
    summary+=("$name: left out, no time")
    failed=1
    return
  fi
  GPU_PART=$name-$$ LIMIT=$most "$@" >"$work/files/$name.log" 2>&1 </dev/null &
  local process=$!
  while kill -0 $process 2>/dev/null && [ $((SECONDS - start)) -lt "$most" ]; do sleep 0.2; done
  if kill -9 $process 2>/dev/null; then
    wait $process 2>/dev/null
    rc=124
  else
    wait $process
    rc=$?
  fi
  end_left "$name-$$"
  [ $rc = 0 ] || failed=1
  summary+=("$name: exit $rc after $((SECONDS - start)) s of $most")
  echo "$name: exit $rc after $((SECONDS - start)) s"
  tar -C "$work/files" -czf "$results/results.tar.gz" .
}

# The folders of NVSHMEM's and NCCL's libraries, where Python's packages have them, and the name of
# NCCL's.
rivals() {
  local folder
  # The package has no file of its own, so its folders are searched for.
  folder=$(timeout 20 python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null) || folder=
  # shellcheck disable=SC2086  # folders
  nvshmem=$(find ${folder:-/nowhere} -name 'libnvshmem_host.so.3' -print -quit 2>/dev/null)
  # shellcheck disable=SC2086
  nccl=$(find ${folder:-/nowhere} -name 'libnccl.so.2' -print -quit 2>/dev/null)
  [ -n "$nvshmem" ] ||
    nvshmem=$(timeout 20 find / -xdev -name 'libnvshmem_host.so.3' -print -quit 2>/dev/null)
  nccl=${nccl:-libnccl.so.2}
  echo "NVSHMEM: ${nvshmem:-none}; NCCL: $nccl"
  nvshmem=${nvshmem:+$(dirname "$nvshmem")}
}

# Prints what was measured, 11,000 characters at most, and ends the script.
finish() {
  local log
  for log in "$work/files"/*.log; do
    grep -qE '(bench|tanada).*(error|failed|hangs|out of time)|left out|FAILED|wrong' "$log" ||
      continue
    echo "---- $(basename "$log")"
    grep -hE '(bench|tanada).*(error|failed|hangs|out of time)|left out|FAILED|wrong' "$log" |
      head -n 6 | cut -c1-220
  done >"$work/files/faults.txt"
  head -c 2500 "$work/files/faults.txt"
  python3 tools/gpu/print_rows.py --size 8000 "$work/files"/*.json
  printf '%s\n' "${summary[@]}"
  echo "all: $((SECONDS - begin)) s"
  printf '%s\n' "${summary[@]}" >"$work/files/summary.txt"
  tar -C "$work/files" -czf "$results/results.tar.gz" .
  rm -rf "$work"
  exit $failed
}
