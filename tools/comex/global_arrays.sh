#!/usr/bin/env bash
# Build unmodified Global Arrays on Tanada's ARMCI. A later call builds only the changed parts.
# usage: tools/comex/global_arrays.sh FOLDER LIBRARIES HEADERS [TARGET ...]
#
# LIBRARIES has libarmci.so and libcomex.so, HEADERS has armci.h: a build's lib and
# include/compat/comex, or the folders of an installation. A TARGET is a test program of GA
# (global/testing/lock.x), or "checkprogs" for all of them. The source is Debian's (apt-get source
# ga), or the folder or archive that TND_GA_SOURCE names. TND_GA_CONFIGURE has further arguments of
# GA's configure, such as --with-blas=-lopenblas. GA is installed in FOLDER/prefix, for other
# programs. If the source or its compiler is not available, the script prints the reason and exits
# with 77.
set -euo pipefail
folder=${1:?usage: tools/comex/global_arrays.sh FOLDER LIBRARIES HEADERS [TARGET ...]}
libraries=$(realpath "${2:?LIBRARIES}") headers=$(realpath "${3:?HEADERS}")
shift 3
mkdir -p "$folder"
folder=$(realpath "$folder")
# Tests that run at the same time may call this script.
exec 9>"$folder/lock"
flock 9

skip() {
  echo "global_arrays: $*" >&2
  exit 77
}
for tool in mpicc mpif90 make; do
  command -v "$tool" >/dev/null || skip "there is no $tool: apt-get install libopenmpi-dev gfortran make"
done

# Debian's source package, with package lists of its own: most machines have no deb-src lines.
fetch() {
  command -v apt-get >/dev/null && command -v dpkg-source >/dev/null || return 1
  # shellcheck disable=SC1091
  . /etc/os-release
  [ "$ID" = debian ] || {
    (cd "$1" && apt-get source -q ga)
    return
  }
  mkdir -p "$1/lists/partial"
  echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" >"$1/sources.list"
  local options=(-q -o "Dir::Etc::sourcelist=$1/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::Lists=$1/lists")
  apt-get "${options[@]}" update && (cd "$1" && apt-get "${options[@]}" source ga)
}

source=$folder/source
if [ ! -e "$source/configure" ]; then
  rm -rf "$source" "$folder/fetched"
  mkdir -p "$source" "$folder/fetched"
  if [ -d "${TND_GA_SOURCE:-}" ]; then
    (cd "$TND_GA_SOURCE" && tar -c --exclude=.git .) | tar -x -C "$source"
  elif [ -n "${TND_GA_SOURCE:-}" ]; then
    tar -x -C "$source" --strip-components=1 -f "$TND_GA_SOURCE"
  else
    timeout 300 bash -c "$(declare -f fetch); fetch '$folder/fetched'" >"$folder/fetch.log" 2>&1 || skip "apt-get source ga: $(tail -n 1 "$folder/fetch.log")"
    unpacked=$(find "$folder/fetched" -mindepth 1 -maxdepth 1 -type d -name 'ga-*' -print -quit)
    [ -n "$unpacked" ] || skip "apt-get source ga brought no folder"
    rmdir "$source" && mv "$unpacked" "$source"
  fi
  if [ ! -e "$source/configure" ]; then
    command -v autoreconf >/dev/null || skip "the source has no configure: apt-get install autoconf automake libtool"
    (cd "$source" && autoreconf -vif) >"$folder/autoreconf.log" 2>&1 || {
      tail "$folder/autoreconf.log" >&2
      exit 1
    }
  fi
fi

# Configured as docs/comex.md describes.
build=$folder/build
mkdir -p "$build"
read -ra more <<<"${TND_GA_CONFIGURE:-}"
made_for="$libraries $headers ${more[*]-}"
if [ ! -e "$build/Makefile" ] || [ "$(cat "$build/libraries" 2>/dev/null)" != "$made_for" ]; then
  (cd "$build" && "$source/configure" --with-armci="-I$headers -L$libraries -larmci" --enable-shared --disable-static \
    LIBS="-larmci -lcomex" LDFLAGS="-L$libraries -Wl,-rpath,$libraries" \
    CFLAGS="-O2 -w" FFLAGS="-O2 -w -fallow-argument-mismatch" FCFLAGS="-O2 -w -fallow-argument-mismatch" "${more[@]}") >"$folder/configure.log" 2>&1 ||
    {
      tail "$folder/configure.log" >&2
      exit 1
    }
  echo "$made_for" >"$build/libraries"
fi
run_make() {
  (cd "$build" && make -j "$(nproc)" "$@") >>"$folder/make.log" 2>&1
}
: >"$folder/make.log"
run_make all || {
  tail "$folder/make.log" >&2
  exit 1
}
run_make install prefix="$folder/prefix" || {
  tail "$folder/make.log" >&2
  exit 1
}
# Debian's libtool does not pass the libraries that libga needs, and some programs call BLAS and
# LAPACK directly.
# shellcheck disable=SC2016
programs_link='LIBS=$(LAPACK_LIBS) $(BLAS_LIBS) -lm -larmci -lcomex'
if [ "${1:-}" = checkprogs ]; then
  run_make -k "$@" "$programs_link" || echo "global_arrays: some programs do not build: $folder/make.log" >&2
elif [ $# != 0 ]; then
  run_make "$@" "$programs_link" || {
    tail "$folder/make.log" >&2
    exit 1
  }
fi
echo "$build"
