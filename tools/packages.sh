#!/usr/bin/env bash
# Build the Debian packages of packaging/debian and the wheel, check both, and leave them in
# build/packages/out. The build folder stays, so that a second run compiles what has changed.
# CUDA=1 or an nvcc in PATH adds libtanada-cuda, TANADA_NIXL_SOURCE=FOLDER, the sources of NIXL,
# libtanada-nixl. TANADA_BUILD=FOLDER packs an existing build, whose
# folders of installation become those of a distribution.
set -euo pipefail
cd "$(dirname "$0")/.."
# The libraries of optional packages are found by the configuration, as in every build.
tools/setup.sh packages
python=$(tools/venv.sh packages)
version=$(sed -n 's/^#define TND_VERSION_STRING "\([0-9.]*\)".*/\1/p' include/tanada/version.h)
work=$PWD/build/packages
source=$work/tanada-$version
out=$work/out
rm -rf "$out" "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo
mkdir -p "$source" "$out"

# Of the files that git knows, with their times: ninja compiles only what differs.
git ls-files -z --cached | rsync -a --delete --from0 --files-from=- . "$source/"
rm -rf "$source/debian"
cp -a packaging/debian "$source/debian"
profiles=
if [ "${CUDA:-auto}" != 0 ] && command -v "${CUDACXX:-nvcc}" >/dev/null; then
  profiles=pkg.tanada.cuda
fi
nixl=()
if [ -n "${TANADA_NIXL_SOURCE:-}" ]; then
  TANADA_NIXL_SOURCE=$(realpath "$TANADA_NIXL_SOURCE")
  export TANADA_NIXL_SOURCE
  profiles="$profiles pkg.tanada.nixl"
  nixl=("-DTANADA_NIXL_SOURCE=$TANADA_NIXL_SOURCE")
fi

if [ -n "${TANADA_BUILD:-}" ]; then
  TANADA_BUILD=$(realpath "$TANADA_BUILD")
  export TANADA_BUILD
  cmake -DCMAKE_INSTALL_PREFIX=/usr -DTANADA_GD_ARCHIVE_LINKS=OFF \
    -DCMAKE_INSTALL_LIBDIR="lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" \
    "${nixl[@]}" "$TANADA_BUILD" >/dev/null
  cmake --build "$TANADA_BUILD" --target installed >/dev/null
  DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}"
fi

# -d: pip installs two of the build dependencies, which Debian 12 lacks. -nc: keep the build.
(
  cd "$source"
  export PYTHON="$python" DEB_BUILD_PROFILES="$profiles"
  processors=$(nproc)
  export DEB_BUILD_OPTIONS="parallel=$processors nocheck ${DEB_BUILD_OPTIONS:-}"
  dpkg-buildpackage -b -us -uc -d -nc >"$work/build.log" 2>&1
) || {
  tail -40 "$work/build.log" >&2
  exit 1
}
mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out/"
(cd "$out" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
echo "packages: $(find "$out" -name '*.deb' | wc -l) Debian packages in $out"
# The packages are not for Debian's archive, whose first version closes a bug.
lintian --fail-on error,warning --tag-display-limit 0 --allow-root \
  --suppress-tags initial-upload-closes-no-bugs "$out"/*.deb

# The wheel has the library, its plugins and the commands. Libraries of other packages that its own
# need are copied into it, but those of plugins whose package the user has anyway.
prefix=$work/prefix
rm -rf "$prefix" "$work/wheel"
built=${TANADA_BUILD:-$source/obj-$(dpkg-architecture -qDEB_HOST_GNU_TYPE)}
# GD's archive has only the used parts. The shared library would bring fifty others into the wheel,
# also such as have other licences.
cmake -UTANADA_GD_ARCHIVE_LINKS "$built" >/dev/null
cmake --build "$built" --target installed >/dev/null
DESTDIR=$prefix cmake --install "$built" --prefix /usr >/dev/null
"$python" -m pip wheel -q --no-build-isolation --no-deps --no-index --wheel-dir "$work/wheel" . \
  -C build-dir="$work/python" -C cmake.define.TANADA_PREBUILT="$prefix/usr"
tools/wheel.sh "$python" "$work"/wheel/tanada-*.whl "$out"
