#!/usr/bin/env bash
# Install the Debian or Ubuntu packages that a task needs and this machine lacks.
# usage: tools/setup.sh build|test|demo|bench|lint|docs|packages|rdma|kernel|mpi|ga ...
set -euo pipefail

# package|tasks|why
required='
build-essential|build|compilers for C and C++, make
cmake|build|configures the build
ninja-build|build|runs the build
pkg-config|build|finds libraries
liburing-dev|build|io_uring: the file store
libspdlog-dev|build|log lines
libfmt-dev|build|texts of log lines and of statuses
libgd-dev|build|GD: pictures and animations of fields
libcli11-dev|build|command lines of programs
nlohmann-json3-dev|build|JSON: traces, the command line
libsodium-dev|build|libsodium: keys of clients of the pool
libxxhash-dev|build|XXH3: checksums of objects
libisal-dev|build|ISA-L: CRC32C and erasure codes
libtomlplusplus-dev|build|TOML: settings of the pool daemon
libcpp-httplib-dev|build|HTTP: metrics and web page of the pool; the client of etcd
libssl-dev|build|OpenSSL: TLS of the client of etcd
libboost-dev|build|Boost.Interprocess: allocation within a given memory block
libgtest-dev|test|GoogleTest: unit tests
python3|test demo docs packages|the fixture that runs a Gfarm; pytest
python3-dev|test packages|headers of Python: the Python package
python3-venv|test mpi docs packages|an environment for pytest, Sphinx or wheels
procps|test|ps, used by fixtures
wamerican|bench|words for the string matching experiment
strace|kernel|counts system calls in a guest
clang|lint|the second compiler; fuzzing
doxygen|docs|reads the public headers for the documentation site
qemu-system-x86|rdma|the virtual machine with a software RDMA device
busybox-static|rdma|the programs of the virtual machine
cpio|rdma|packs its initial file system
xz-utils|rdma kernel|unpacks its kernel; unpacks the source of another one
kmod|rdma kernel|finds the dependencies of its kernel modules; loads them
iproute2|rdma mpi kernel|creates the RDMA device; links of a given rate
flex|kernel|the configuration of the kernel that the driver is tested in
bison|kernel|the same
bc|kernel|its build
ibverbs-providers|rdma|drivers through which programs use it
openmpi-bin|test mpi|Open MPI 4: a launcher of OpenSHMEM programs; MPI programs that o2g must carry
libopenmpi-dev|mpi ga|its compilers
gfortran|mpi ga|the NAS Parallel Benchmarks; Global Arrays
autoconf|ga|the configure of Global Arrays, where its source comes from git
automake|ga|the same
libtool|ga|the same
dpkg-dev|ga packages|unpacks the source package of Global Arrays; lists packages
debhelper|packages|Debian packages
dh-python|packages|the same, of Python
chrpath|packages|removes search paths of libraries
lintian|packages|checks Debian packages
mmdebstrap|packages|bare systems to try them in
rsync|packages|copies the sources that are packed
'
# The tree can be built without these packages. Some distributions lack them.
optional='
libfabric-dev|build|libfabric: networks that move memory
libpmem-dev|build|libpmem: pools in persistent memory
ndctl|rdma|makes namespaces of the NVDIMM of a guest
libpmix-dev|build|PMIx: jobs of several processes
libopenmpi-dev|build|headers of Open MPI: ComEx and ARMCI for Global Arrays
libfabric-bin|test|fi_info and fi_pingpong, to try a provider with
libgfarm-dev|build|Gfarm client library: the gfarm:// store
libglusterfs-dev|build|GlusterFS client library: the gluster:// store
uuid-dev|build|required by the pkg-config file of libglusterfs-dev
gfmd|test demo|Gfarm metadata server: tests and demo on a real Gfarm
gfsd|test demo|Gfarm storage server
gfarm-client|test demo|Gfarm commands
netbase|test demo|/etc/protocols, which libgfarm reads
openmpi-bin|demo|Open MPI: starts the processes that share the grid of the demo
libclang-dev|ga|libclang: a large C++ program whose memory is swapped out
glusterfs-server|test|a GlusterFS to test with
etcd-server|test|an etcd to test with
openssl|test|certificates of that etcd
chromium|test|a browser for the tests of the web page
memcached|bench|a rival of the pool
fio|bench|measures the disk, for ComEx larger than memory
redis-server|bench|a rival of the pool
nfs-ganesha|bench|NFS server, a rival of the pool
nfs-ganesha-vfs|bench|its access to files
rpcbind|bench|port mapping for NFS clients
libnfs-dev|bench|NFS client library
'

tasks=" build $* "

# Prints the lines of table $1 whose task was requested and whose package is missing.
missing_of() {
  local package wanted why task
  while IFS='|' read -r package wanted why; do
    [ -n "$package" ] || continue
    case $installed in *" $package "*) continue ;; esac
    for task in $wanted; do
      case $tasks in *" $task "*)
        echo "$package|$why"
        break
        ;;
      esac
    done
  done <<<"$1"
}

if ! command -v dpkg-query >/dev/null; then
  # shellcheck disable=SC2046  # in one line
  echo "setup: not a Debian or Ubuntu system; the build needs these, and reports what is missing:" \
    $(cut -d'|' -f1 <<<"$required")
  exit 0
fi
names=$(cut -d'|' -f1 <<<"$required$optional")
# dpkg-query fails if it does not know one of them.
# shellcheck disable=SC2086  # the names are words
states=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $names 2>/dev/null || true)
installed=" $(sed -n 's/^installed //p' <<<"$states" | tr '\n' ' ')"
missing=$(missing_of "$required")
missing_optional=$(missing_of "$optional")
# An optional package that the distribution lacks is reported once, and not searched for again.
unavailable=build/setup-unavailable
if [ -n "$missing_optional" ] && [ -f $unavailable ]; then
  missing_optional=$(grep -vxFf $unavailable <<<"$missing_optional" || true)
fi
[ -n "$missing$missing_optional" ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    if [ -z "$missing" ]; then
      # shellcheck disable=SC2046  # in one line
      echo "setup: going on without" $(cut -d'|' -f1 <<<"$missing_optional"), which this user may not install
      exit 0
    fi
    echo "setup: packages are missing and this user may not install them. Run:" >&2
    # shellcheck disable=SC2046  # in one line
    echo "  sudo apt-get install -y --no-install-recommends" $(cut -d'|' -f1 <<<"$missing") >&2
    exit 1
  fi
fi

# With RUNLEVEL=1 a package does not start its service, except under systemd.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -o DPkg::Lock::Timeout=600 "$@" </dev/null
}
available() { apt-cache show --no-all-versions "$1" >/dev/null 2>&1; }

updated=0
update_once() {
  [ $updated = 0 ] || return 0
  updated=1
  echo "setup: refreshing the package lists"
  apt -qq update
}

wanted=()
while IFS='|' read -r package why; do
  [ -n "$package" ] || continue
  echo "setup: installing $package: $why"
  available "$package" || update_once
  wanted+=("$package")
done <<<"$missing"
while IFS='|' read -r package why; do
  [ -n "$package" ] || continue
  available "$package" || update_once
  if available "$package"; then
    echo "setup: installing $package: $why"
    wanted+=("$package")
  else
    echo "setup: going on without $package, which this distribution lacks: $why"
    mkdir -p build && echo "$package|$why" >>$unavailable
  fi
done <<<"$missing_optional"

[ ${#wanted[@]} -gt 0 ] || exit 0
install() { apt -qq install -y --no-install-recommends "${wanted[@]}" >/dev/null; }
# The second attempt refreshes package lists that are older than the mirror.
install || { update_once && install; } || exit
# Tests start an etcd of their own. The service of a machine that had etcd before is left as it is.
case " ${wanted[*]} " in *" etcd-server "*)
  if [ -d /run/systemd/system ]; then
    "${as_root[@]}" systemctl disable --now --quiet etcd.service || true
  fi
  ;;
esac
