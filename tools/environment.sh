# shellcheck shell=bash
# Functions for virtual environments of Python. Other scripts source this file.

# make_environment FOLDER WORDS...: create a virtual environment with the packages that
# `pip install WORDS` installs. PIP_FIND_LINKS names folders of wheels. The first attempt uses only
# these. If the packages cannot be installed, the script removes the folder and exits with 1.
make_environment() {
  local folder=$1 log
  shift
  echo "setup: making $folder" >&2
  rm -rf "$folder"
  log=$(mktemp)
  # With one retry and short timeouts, an unreachable index is detected within seconds. Values of
  # PIP_RETRIES and PIP_DEFAULT_TIMEOUT in the environment take precedence.
  local pip=(env "PIP_RETRIES=${PIP_RETRIES:-1}" "PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-10}" "$folder/bin/pip" install -q
    --disable-pip-version-check)
  if python3 -m venv "$folder" >"$log" 2>&1; then
    local wheels=(env)
    # pip would split the variable at blanks in the name of a folder.
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
