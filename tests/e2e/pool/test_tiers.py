"""A pool on flash that is larger than its memory: a real daemon, the command line as its client."""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import urllib.request

import pytest
from commands import BUILD, TANADA, Daemon, environment, pool, pool_json, wait_for

MIB = 1 << 20
MEMORY = 64 * MIB
PATHS = [{}, {"TND_POOL_SHARED_MEMORY": "off"}]
COUNT_LARGE, COUNT_SMALL = 60, 400
# Beside the pool's memory: the program, rings, buffers of reads, and the index of the objects.
OVERHEAD_MAX = 96 * MIB


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hashes_of(folder):
    return {path.name: hash_of(path) for path in folder.iterdir()}


def make_files(folder, sizes, seed=1):
    folder.mkdir()
    drawn = random.Random(seed)
    for i, size in enumerate(sizes):
        (folder / f"{i:04}").write_bytes(drawn.randbytes(size))
    return folder


def daemon_of(folder, *options, log_size="4GiB", size="64MiB"):
    folder.mkdir(exist_ok=True)
    return Daemon(
        folder, "--backing", f"flash:{folder}/flash", "--log-size", log_size, *options, size=size
    )


def copy_in(daemon, source, *options):
    done = pool("cp", "-r", *options, f"{source}/", daemon.url("runs/"))
    assert done.returncode == 0, done.stderr


def check_all(daemon, source, target, variables):
    done = pool("cp", "-r", daemon.url(f"runs/{source.name}"), target, variables=variables)
    assert done.returncode == 0, done.stderr
    assert hashes_of(target) == hashes_of(source)
    for path in target.iterdir():
        path.unlink()
    target.rmdir()


def resident_size(daemon):
    with open(f"/proc/{daemon.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) << 10


def metrics(daemon):
    with urllib.request.urlopen(f"{daemon.web}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        line.split()[0]: float(line.split()[1])
        for line in text.splitlines()
        if not line.startswith("#")
    }


@pytest.mark.slow
def test_a_gibibyte_of_objects_passes_through_64_mebibytes(tmp_path):
    drawn = random.Random(2)
    sizes = [drawn.randint(14 * MIB, 18 * MIB) for _ in range(COUNT_LARGE)]
    sizes += [drawn.randint(0, 20_000) for _ in range(COUNT_SMALL)]
    source = make_files(tmp_path / "source", sizes)
    with daemon_of(tmp_path / "daemon", "--web") as daemon:
        copy_in(daemon, source, "--durable")
        for variables in PATHS:
            check_all(daemon, source, tmp_path / "target", variables)
        assert resident_size(daemon) < MEMORY + OVERHEAD_MAX
        stat = pool_json("stat", daemon.url("runs"))["statistics"]
        assert stat["used"] >= sum(sizes) and stat["namespace_used"] >= sum(sizes)
        figures = metrics(daemon)
        assert figures["tanada_pool_memory_used_bytes"] <= MEMORY
        assert figures["tanada_pool_cold_bytes"] >= sum(sizes) - MEMORY
        assert figures["tanada_pool_demotions_total"] >= COUNT_LARGE - 4

        daemon.stop(signal.SIGKILL)
        daemon.start()
        # Nothing has been read.
        assert resident_size(daemon) < OVERHEAD_MAX
        assert metrics(daemon)["tanada_pool_memory_used_bytes"] == 0
        for variables in PATHS:
            check_all(daemon, source, tmp_path / "target", variables)


def test_objects_that_memory_holds_need_the_disk_once(tmp_path):
    source = make_files(tmp_path / "source", [MIB] * 16)
    with daemon_of(tmp_path / "daemon", "--web") as daemon:
        copy_in(daemon, source, "--durable")
        daemon.stop(signal.SIGKILL)
        daemon.start()
        for variables in PATHS[::-1]:
            check_all(daemon, source, tmp_path / "target", variables)
        figures = metrics(daemon)
        assert figures["tanada_pool_promotions_total"] == 16
        assert figures["tanada_pool_cold_objects"] == 0


@pytest.mark.slow
def test_overwritten_objects_keep_their_last_bytes_while_the_log_is_compacted(tmp_path):
    with daemon_of(tmp_path / "daemon", log_size="600MiB") as daemon:
        for seed in range(6):
            source = make_files(tmp_path / f"source{seed}", [2 * MIB] * 90, seed)
            source = source.rename(tmp_path / "source")
            copy_in(daemon, source, "--durable")
            if seed % 2 == 1:
                daemon.stop(signal.SIGKILL)
                daemon.start()
            check_all(daemon, source, tmp_path / "target", PATHS[seed % 2])
            for path in source.iterdir():
                path.unlink()
            source.rmdir()


@pytest.mark.parametrize("variables", PATHS, ids=["shared", "tcp"])
def test_a_damaged_object_is_an_error_and_no_other_is_lost(tmp_path, variables):
    source = make_files(tmp_path / "source", [MIB] * 8)
    with daemon_of(tmp_path / "daemon") as daemon:
        copy_in(daemon, source, "--durable")
        daemon.stop()
        damaged = (source / "0003").read_bytes()[500_000:500_032]
        for path in (tmp_path / "daemon/flash").glob("log-*"):
            data = path.read_bytes()
            place = data.find(damaged)
            if place >= 0:
                path.write_bytes(data[:place] + b"\0" + data[place + 1 :])
        daemon.start()
        for i in range(8):
            name = f"runs/source/{i:04}"
            done = pool("cat", daemon.url(name), variables=variables, text=False)
            assert (done.returncode == 0) == (i != 3), done.stderr
            if i == 3:
                assert b"EIO" in done.stderr and b"damaged" in done.stderr
            else:
                assert done.stdout == (source / f"{i:04}").read_bytes()
        assert pool("rm", daemon.url("runs/source/0003")).returncode == 0


def test_a_full_log_refuses_puts_and_evicts_what_may_be_evicted(tmp_path):
    source = make_files(tmp_path / "source", [8 * MIB] * 12)
    with daemon_of(tmp_path / "daemon", log_size="128MiB") as daemon:
        done = pool("cp", "-r", "--durable", f"{source}/", daemon.url("runs/"))
        assert done.returncode == 0, done.stderr
        for i in range(12, 20):
            (source / f"{i:04}").write_bytes(os.urandom(8 * MIB))
        codes = [
            pool("cp", "--durable", source / f"{i:04}", daemon.url(f"runs/source/{i:04}"))
            for i in range(12, 20)
        ]
        refused = [done for done in codes if done.returncode != 0]
        assert refused and all("ENOSPC" in done.stderr for done in refused)
        for i in range(12):
            done = pool("cat", daemon.url(f"runs/source/{i:04}"), text=False)
            assert done.stdout == (source / f"{i:04}").read_bytes(), done.stderr
        for i in range(8):
            assert pool("rm", daemon.url(f"runs/source/{i:04}")).returncode == 0
        wait_for(
            lambda: (
                pool("cp", "--durable", source / "0019", daemon.url("runs/new")).returncode == 0
            ),
            "space after removals",
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk_refuses_durable_puts_and_keeps_cold_objects(tmp_path):
    folder = tmp_path / "daemon"
    folder.mkdir()
    (folder / "flash").mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", folder / "flash"], check=True
    )
    try:
        with daemon_of(folder) as daemon:
            source = make_files(tmp_path / "source", [8 * MIB] * 30)
            codes = {}
            for path in sorted(source.iterdir()):
                done = pool("cp", "--durable", path, daemon.url(f"runs/{path.name}"))
                codes[path.name] = done.returncode
                assert done.returncode == 0 or "ENOSPC" in done.stderr
            kept = [name for name, code in codes.items() if code == 0]
            assert 12 < len(kept) < 30
            # Objects that were refused are in memory, so clients may not map all others.
            for name in kept:
                done = pool("cat", daemon.url(f"runs/{name}"), text=False, variables=PATHS[1])
                assert done.stdout == (source / name).read_bytes(), done.stderr
            daemon.stop(signal.SIGKILL)
            daemon.start()
            for name in kept:
                done = pool("cat", daemon.url(f"runs/{name}"), text=False)
                assert done.stdout == (source / name).read_bytes(), done.stderr
    finally:
        subprocess.run(["umount", "-l", folder / "flash"], check=True)


def names_of(daemon):
    return [entry["name"] for entry in pool_json("ls", daemon.url("runs"))["objects"]]


def used(daemon):
    return pool_json("stat", daemon.url("runs"))["statistics"]["used"]


def test_an_object_larger_than_memory_survives_a_kill(tmp_path):
    source = make_files(tmp_path / "source", [5 * MEMORY // 2])
    path = source / "0000"
    with daemon_of(tmp_path / "daemon", "--web") as daemon:
        for i, variables in enumerate(PATHS):
            url = daemon.url(f"runs/large{i}")
            done = pool("cp", "--durable", path, url, variables=variables)
            assert done.returncode == 0, done.stderr
        assert metrics(daemon)["tanada_pool_memory_used_bytes"] <= MEMORY
        for _ in range(2):
            for i, variables in enumerate(PATHS):
                url = daemon.url(f"runs/large{1 - i}")
                done = pool("cat", url, variables=variables, text=False)
                assert done.stdout == path.read_bytes(), done.stderr
            daemon.stop(signal.SIGKILL)
            daemon.start()
        assert sorted(names_of(daemon)) == ["large0", "large1"]
        for i in range(2):
            assert pool("rm", daemon.url(f"runs/large{i}")).returncode == 0
        wait_for(lambda: used(daemon) == 0, "the removal of all stripes")


@pytest.mark.parametrize("victim", ["client", "daemon"])
def test_a_kill_during_a_put_larger_than_memory_leaves_nothing(tmp_path, victim):
    source = make_files(tmp_path / "source", [3 * MEMORY])
    with daemon_of(tmp_path / "daemon") as daemon:
        putting = subprocess.Popen(
            [TANADA, "pool", "cp", source / "0000", daemon.url("runs/large")],
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: used(daemon) > MEMORY // 4, "some stripes")
        if victim == "client":
            putting.kill()
        else:
            daemon.stop(signal.SIGKILL)
            daemon.start()
        putting.wait()
        assert putting.returncode != 0 and names_of(daemon) == []
        wait_for(lambda: used(daemon) == 0, "the removal of all stripes")


def test_an_object_larger_than_memory_is_evicted_as_a_whole(tmp_path):
    source = make_files(tmp_path / "source", [2 * MEMORY] * 3)
    with daemon_of(tmp_path / "daemon", log_size="400MiB") as daemon:
        for i in range(3):
            url = daemon.url(f"runs/{i}")
            done = pool("cp", "--evictable", source / f"{i:04}", url)
            assert done.returncode == 0, done.stderr
        names = names_of(daemon)
        assert names == ["1", "2"]
        for name in names:
            done = pool("cat", daemon.url(f"runs/{name}"), text=False)
            assert done.stdout == (source / f"000{name}").read_bytes(), done.stderr


@pytest.mark.parametrize("variables", PATHS, ids=["shared", "tcp"])
def test_calls_on_striped_objects_work_on_one_server(tmp_path, variables):
    """The objects of the suite have up to 12 MiB, which is more than memory."""
    with daemon_of(tmp_path / "daemon", log_size="1GiB", size="8MiB") as daemon:
        done = subprocess.run(
            [BUILD / "bin/pool_striped", "--gtest_filter=-*are_refused_by_a_pool_in_memory"],
            env=environment(TANADA_TEST_POOL_URL=daemon.url("striped"), **variables),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_pinned_objects_stay_in_memory_and_fit_again(tmp_path):
    source = make_files(tmp_path / "source", [4 * MIB] * 40)
    with daemon_of(tmp_path / "daemon", "--web") as daemon:
        done = pool("cp", source / "0000", daemon.url("runs/pinned"), "--durable", "--pinned")
        assert done.returncode == 0, done.stderr
        copy_in(daemon, source, "--durable")
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert metrics(daemon)["tanada_pool_memory_used_bytes"] >= 4 * MIB


def test_statistics_are_json(tmp_path):
    with daemon_of(tmp_path / "daemon", "--web") as daemon:
        with urllib.request.urlopen(f"{daemon.web}/stats.json", timeout=30) as answer:
            report = json.load(answer)
        assert report["memory_capacity"] == MEMORY
        assert report["capacity"] > MEMORY
