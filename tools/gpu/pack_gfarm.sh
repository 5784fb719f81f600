#!/usr/bin/env bash
# Gather what tools/gpu/gfarm.sh needs on a machine that has a GPU, Python and no network: gfile's
# contract, string_match and bench_gfarm, the daemons and tools of Gfarm and, if it is installed,
# GlusterFS, and the libraries of all.
# usage: tools/gpu/pack_gfarm.sh BUILD_FOLDER TARGET_FOLDER [DICTIONARY TEXT]
# TARGET_FOLDER.tar.gz has the same. DICTIONARY and TEXT are the files of string matching.
# GFARM, GLUSTER: the folders below which they are installed (/usr). GLUSTER= leaves GlusterFS out.
# PROGRAM_END: the end of the programs' names (_cuda). If it is empty, programs of the host executor
# are gathered, to try the script without a GPU.
set -euo pipefail
usage="usage: tools/gpu/pack_gfarm.sh BUILD_FOLDER TARGET_FOLDER [DICTIONARY TEXT]"
cd "$(dirname "$0")/../.."
build=${1:?$usage}
target=${2:?$usage}
gfarm=${GFARM:-/usr}
gluster=${GLUSTER-/usr}
end=${PROGRAM_END-_cuda}
rm -rf "$target"
mkdir -p "$target"/{bin,lib,sbin,share}
for name in gfile_contract string_match bench_gfarm; do
  cp "$build/bin/$name$end" "$target/bin/"
done
cp "$build/bin/bench_dfs" "$target/bin/"
cp -a "$build"/lib/libtanada.so* "$target/lib/"
plugins=(store_gfarm)
[ -z "$end" ] || plugins+=(cuda)
for name in gfls gfmkdir gfreg gfrm gfrmdir gfkey gfhost gfdf gfwhere; do
  cp "$gfarm/bin/$name" "$target/sbin/"
done
cp "$gfarm"/sbin/{gfmd,gfsd} "$target/sbin/"
if [ -n "$gluster" ] && [ -x "$gluster/sbin/glusterfsd" ]; then
  plugins+=(store_gluster)
  cp -L "$gluster/sbin/gluster" "$gluster/sbin/glusterfsd" "$target/sbin/"
  ln -s glusterfsd "$target/sbin/glusterd"
  # Translators are found by absolute names: tools/gpu/gfarm.sh places them there.
  modules=$(dirname "$(find "$gluster/lib" -path '*/glusterfs/*/xlator' -print -quit)")
  printf '%s\n' "$modules" >"$target/share/gluster_modules"
  cp -aL "$modules" "$target/lib/glusterfs"
fi
for plugin in "${plugins[@]}"; do cp "$build/lib/libtanada_$plugin.so" "$target/lib/"; done
[ $# -lt 4 ] || { cp "$3" "$target/share/dictionary.txt" && cp "$4" "$target/share/text.txt"; }
# All libraries but those of the C library and of the GPU's driver.
find "$target" -type f \( -perm -u+x -o -name '*.so*' \) -print0 |
  xargs -0 -n 1 ldd 2>/dev/null |
  awk '$3 ~ /^\// && $1 !~ /^(lib(c|m|dl|rt|pthread|resolv|util|cuda|nvidia[-a-z]*)\.so|ld-)/ {
    print $3 }' | sort -u | grep -v "/libtanada\.so" |
  while read -r path; do cp -L "$path" "$target/lib/"; done
find "$target" -type f \( -path '*/bin/*' -o -name '*.so*' \) -exec strip --strip-unneeded {} + \
  2>/dev/null || true
# The scripts, so that they run without a checkout: FOLDER/tools/gpu/gfarm.sh FOLDER RESULTS.
for script in tools/gpu/{gfarm,parts}.sh tools/{bench_dfs.sh,gpu/print_rows.py} \
  tests/fixtures/{gfarm,gluster}.py; do
  mkdir -p "$target/$(dirname "$script")"
  cp "$script" "$target/$script"
done
tar -C "$target" -czf "$target.tar.gz" .
du -sh "$target" "$target.tar.gz"
