#!/usr/bin/env bash
# Install the packages of tools/packages.sh in bare root file systems, and run packaging/test in
# each. As root. usage: tools/test_packages.sh [SUITE]
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || {
  echo "test-packages: root is needed, for chroot" >&2
  exit 1
}
tools/setup.sh packages
out=$PWD/build/packages/out
[ -f "$out/Packages" ] || tools/packages.sh
suite=${1:-$(. /etc/os-release && echo "$VERSION_CODENAME")}

# The bare system is downloaded once.
base=$PWD/build/packages/$suite.tar
[ -f "$base" ] || {
  mmdebstrap --quiet --variant=minbase --mode=root "$suite" "$base.part"
  mv "$base.part" "$base"
}

failed=()
# run_test NAME: in a mount namespace of its own, whose mounts end with it.
run_test() {
  local name=$1 root
  root=$(mktemp -d "${TMPDIR:-/tmp}/tanada-root.XXXXXX")
  if unshare --mount --pid --fork --kill-child tools/in_root.sh "$base" "$root" "$out" \
    "packaging/test/$name.sh" >"$root.log" 2>&1; then
    echo "ok      $name: $(tail -1 "$root.log")"
  else
    echo "FAILED  $name"
    tail -30 "$root.log"
    failed+=("$name")
  fi
  rm -rf --one-file-system "$root" "$root.log"
}
for test in packaging/test/*.sh; do run_test "$(basename "$test" .sh)"; done
[ ${#failed[@]} = 0 ]
