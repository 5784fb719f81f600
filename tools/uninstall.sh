#!/usr/bin/env bash
# Remove what `make install` put under PREFIX, by the list of files that it left there. DESTDIR is respected. Edited settings
# of the daemon stay.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/prefix.sh
root=${DESTDIR:-}
list=$root$prefix/share/tanada/installed-files.txt
if [ ! -f "$list" ]; then
  echo "uninstall: $list does not exist: nothing is installed under $prefix, or by a version without that list" >&2
  exit 1
fi

default_settings=$root$prefix/share/tanada/poold.toml
folders=()
files=()
while IFS= read -r file; do
  case $file in
    /*) path=$root$file ;;
    *) path=$root$prefix/$file ;;
  esac
  if [[ $path == */etc/tanada/poold.toml ]] && ! cmp -s "$path" "$default_settings"; then
    echo "uninstall: keeping $path, which was edited"
    continue
  fi
  files+=("$path")
  folders+=("$(dirname "$path")")
done <"$list"
files+=("$list")
rm -f -- "${files[@]}"

# Whether a folder that is empty now goes as well. Those of a distribution stay.
is_ours() {
  case $prefix in
    /usr | /usr/local) [[ $1 == */tanada || $1 == */tanada/* || $1 == */include/shmem* || $1 == */include/comex* ]] ;;
    *) [[ $1 == "$root$prefix"/* ]] ;;
  esac
}
while IFS= read -r folder; do
  while is_ours "$folder"; do
    rmdir -- "$folder" 2>/dev/null || break
    folder=$(dirname "$folder")
  done
done < <(printf '%s\n' "${folders[@]}" | sort -ru)
echo "uninstall: removed ${#files[@]} files from $root$prefix"
