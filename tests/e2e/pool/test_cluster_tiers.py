"""A cluster of real servers on flash, with more data than memory."""

import random
import shutil

import etcd
import pytest
from cluster_processes import Cluster
from commands import pool, wait_for


def test_a_server_that_lost_its_flash_gets_more_than_its_memory_again(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    try:
        running = Cluster(folder, 2)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    for server in running.servers:
        backing = f"flash:{tmp_path}/flash{server.port}"
        server.options = ("--backing", backing, "--log-size", "1GiB")
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
