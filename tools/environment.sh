# shellcheck shell=bash
# Environments of Python packages, for scripts that source this.

# make_environment FOLDER WORDS...: a venv with what `pip install WORDS` installs. Ends the script with status 1, and leaves no
# folder, where the packages cannot be had. PIP_FIND_LINKS names a folder of wheels (or several); those are tried alone first.
make_environment() {
  local folder=$1 log
  shift
  echo "setup: making $folder" >&2
  rm -rf "$folder"
  log=$(mktemp)
  # One more try and short waits: an index that is not reachable is found out in seconds. PIP_RETRIES and PIP_DEFAULT_TIMEOUT win.
  local pip=(env "PIP_RETRIES=${PIP_RETRIES:-1}" "PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-10}" "$folder/bin/pip" install -q
    --disable-pip-version-check)
  if python3 -m venv "$folder" >"$log" 2>&1; then
    local wheels=(env)
    # pip takes the variable for several folders where its name has blanks.
    if [ -d "${PIP_FIND_LINKS:-}" ]; then
      wheels=(env -u PIP_FIND_LINKS)
      set -- --find-links "$PIP_FIND_LINKS" "$@"
    fi
    if [ -n "${PIP_FIND_LINKS:-}" ] && "${wheels[@]}" "${pip[@]}" --no-index "$@" >"$log" 2>&1; then
      rm -f "$log"
      return 0
    fi
    if [ -z "${PIP_NO_INDEX:-}" ] && "${wheels[@]}" "${pip[@]}" "$@" >"$log" 2>&1; then
      rm -f "$log"
      return 0
    fi
  fi
  tail -5 "$log" >&2
  rm -rf "$folder" "$log"
  echo "setup: the Python packages of $folder cannot be installed. Without a network put their wheels into a folder," >&2
  echo "setup: where there is one by: pip download -d FOLDER $*" >&2
  echo "setup: and name it by PIP_FIND_LINKS=FOLDER" >&2
  exit 1
}
