"""tools/setup.sh against a simulated machine: stubs for dpkg-query, apt-get and others in a folder
of their own.
"""

import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = (
    "build-essential cmake ninja-build pkg-config liburing-dev libspdlog-dev libfmt-dev "
    "libgd-dev libcli11-dev nlohmann-json3-dev libsodium-dev libxxhash-dev libisal-dev "
    "libtomlplusplus-dev libcpp-httplib-dev libssl-dev libboost-dev libgtest-dev "
    "python3 python3-dev "
    "python3-venv procps wamerican clang qemu-system-x86 busybox-static cpio xz-utils kmod "
    "iproute2 flex bison bc ibverbs-providers openmpi-bin libopenmpi-dev gfortran autoconf automake libtool "
    "dpkg-dev libfabric-dev libpmem-dev ndctl libpmix-dev libfabric-bin libgfarm-dev "
    "libglusterfs-dev uuid-dev "
    "gfmd gfsd gfarm-client netbase glusterfs-server etcd-server openssl "
    "chromium memcached fio redis-server "
    "nfs-ganesha nfs-ganesha-vfs rpcbind libnfs-dev"
).split()


class Machine:
    def __init__(self, folder):
        self.folder = folder
        self.log = folder / "apt.log"
        self.log.touch()
        (folder / "bin").mkdir()
        self.has(*ALL)
        self.stub("apt-cache", "exit 0")
        self.stub("apt-get", f'echo "$@" >> "{self.log}"')
        self.stub("id", "echo 0")

    def stub(self, name, body):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def has(self, *packages):
        self.stub(
            "dpkg-query",
            "printf 'installed %s\\n' "
            + " ".join(packages)
            + f"\n[ {len(packages)} = {len(ALL)} ]",
        )

    def setup(self, *tasks):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return subprocess.run(
            [ROOT / "tools/setup.sh", *tasks],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=30,
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_nothing_missing_is_quick_and_silent(machine):
    start = time.monotonic()
    done = machine.setup("test", "demo", "bench", "lint")
    assert (done.returncode, done.stdout, machine.log.read_text()) == (0, "", "")
    assert time.monotonic() - start < 2  # 0.3 s on an idle machine


def test_what_is_missing_is_said_and_installed(machine):
    machine.has(*[name for name in ALL if name not in ("ninja-build", "libgtest-dev")])
    done = machine.setup("test")
    assert done.returncode == 0, done.stderr
    assert "installing ninja-build: runs the build" in done.stdout
    assert (
        machine.log.read_text().strip().endswith("--no-install-recommends ninja-build libgtest-dev")
    )
    assert "DPkg::Lock::Timeout=600" in machine.log.read_text()


def test_only_the_tasks_asked_for(machine):
    machine.has(*[name for name in ALL if name not in ("clang", "libgtest-dev")])
    assert machine.setup("build").returncode == 0
    assert machine.log.read_text() == ""


def test_an_optional_package_the_distribution_lacks_is_said_once(machine):
    machine.has(*[name for name in ALL if name != "gfmd"])
    machine.stub("apt-cache", 'case "$*" in *gfmd*) exit 1;; esac')
    done = machine.setup("test")
    assert done.returncode == 0 and "going on without gfmd" in done.stdout
    assert "install" not in machine.log.read_text()
    assert machine.setup("test").stdout == ""


def test_without_rights_the_command_is_printed(machine):
    machine.has(*[name for name in ALL if name != "cmake"])
    machine.stub("id", "echo 1000")
    machine.stub("sudo", "exit 1")
    done = machine.setup("build")
    assert done.returncode == 1
    assert "sudo apt-get install -y --no-install-recommends cmake\n" in done.stderr
    assert machine.log.read_text() == ""


def test_without_rights_optional_packages_are_gone_without(machine):
    machine.has(*[name for name in ALL if name != "gfmd"])
    machine.stub("id", "echo 1000")
    machine.stub("sudo", "exit 1")
    done = machine.setup("test")
    assert done.returncode == 0 and "going on without gfmd" in done.stdout


def test_sudo_is_used_where_it_asks_for_nothing(machine):
    machine.has(*[name for name in ALL if name != "cmake"])
    machine.stub("id", "echo 1000")
    machine.stub("sudo", '[ "$1" = -n ] && shift; exec "$@"')
    done = machine.setup("build")
    assert done.returncode == 0, done.stderr
    assert "install -y" in machine.log.read_text()


def test_old_package_lists_are_refreshed_and_tried_again(machine):
    machine.has(*[name for name in ALL if name != "cmake"])
    machine.stub(
        "apt-get",
        f'echo "$@" >> "{machine.log}"\n'
        f'case "$*" in *install*) [ -f "{machine.folder}/fresh" ] ;; *update*) touch "{machine.folder}/fresh" ;; esac',
    )
    assert machine.setup("build").returncode == 0
    assert [line.split("600 ")[1].split()[1] for line in machine.log.read_text().splitlines()] == [
        "install",
        "update",
        "install",
    ]


def test_a_failed_installation_fails(machine):
    machine.has(*[name for name in ALL if name != "cmake"])
    machine.stub("apt-get", "exit 100")
    assert machine.setup("build").returncode != 0
