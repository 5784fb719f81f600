"""A cluster of real servers on flash, with more data than memory."""

import random
import shutil
import time

import etcd
import pytest
from cluster_processes import (
    MIB,
    Cluster,
    digest,
    random_file,
    read_all,
    restart_all,
    wait_until_missed,
)
from commands import pool, wait_for

CHECK_PERIOD_S = 6  # in which each server compares fragments with their checksums


def cluster_on_flash(folder, count, *options):
    """Servers with 64 MiB of memory and 1 GiB of flash."""
    (folder / "cluster").mkdir()
    try:
        made = Cluster(folder / "cluster", count)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    for server in made.servers:
        backing = f"flash:{folder}/flash{server.port}"
        server.options = ("--backing", backing, "--log-size", "1GiB", *options)
    return made


def test_a_server_that_lost_its_flash_gets_more_than_its_memory_again(tmp_path):
    running = cluster_on_flash(tmp_path, 2)
    source = tmp_path / "source"
    source.mkdir()
    drawn = random.Random(7)
    for i in range(24):
        (source / f"{i:02}").write_bytes(drawn.randbytes(8 << 20))
    try:
        running.start()
        first, second = running.servers
        done = pool("cp", "-r", "--durable", f"{source}/", running.location("runs") + "/")
        assert done.returncode == 0, done.stderr
        second.kill()
        shutil.rmtree(f"{tmp_path}/flash{second.port}")
        second.start()
        wait_for(lambda: second.port_file().exists(), "the server's start")
        size = 24 * (8 << 20)
        wait_for(lambda: second.used_size() >= size, "copies of all objects")
        running.wait_until_whole()
        first.kill()
        wait_for(
            lambda: pool("ls", f"pool://{second.name}/runs/", "--timeout", 5).returncode == 0,
            "the other server takes over",
        )
        done = pool("cp", "-r", f"pool://{second.name}/runs/source", tmp_path / "target")
        assert done.returncode == 0, done.stderr
        for path in source.iterdir():
            assert (tmp_path / "target" / path.name).read_bytes() == path.read_bytes()
    finally:
        running.end()


@pytest.mark.parametrize("code", [pytest.param(None, marks=pytest.mark.slow), "2+1"])
def test_large_objects_leave_memory_and_survive_restarts(tmp_path, code):
    running = cluster_on_flash(tmp_path, 3 if code is None else 4, "--stripe", "1MiB")
    sources = [random_file(tmp_path, 40 * MIB + 12_345, seed) for seed in (1, 2, 3)]
    try:
        running.start()
        if code is not None:
            done = pool("cluster", "set", running.location(""), "large", "--erasure", code)
            assert done.returncode == 0, done.stderr

        def check():
            for i, source in enumerate(sources):
                url = running.location("large", f"object{i}")
                assert digest(read_all(url)) == digest(source.read_bytes())

        for i, source in enumerate(sources):
            url = running.location("large", f"object{i}")
            done = pool("cp", "-q", "--durable", source, url)
            assert done.returncode == 0, done.stderr
        check()
        restart_all(running)
        time.sleep(CHECK_PERIOD_S)
        check()
        running.servers[-1].kill()
        check()
        wait_until_missed(running, running.servers[-1])
        running.servers[-1].start()
        running.wait_until_whole()
        time.sleep(CHECK_PERIOD_S)
        check()
        assert all(server.process.poll() is None for server in running.servers)
    finally:
        running.end()
