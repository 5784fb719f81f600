"""Three real servers with logs: what was durable stays when all of them are restarted."""

import os
import pathlib
import shutil
import subprocess
import time

import etcd
import pytest
from cluster_processes import (
    MIB,
    NAMESPACES,
    Cluster,
    check,
    digest,
    random_file,
    read_all,
    restart_all,
    used_sizes,
)
from commands import pool, wait_for


@pytest.fixture
def durable(tmp_path):
    """A cluster whose servers have logs, and that stripes objects from 1 MiB on."""
    try:
        running = Cluster(tmp_path, 3, "--stripe", "1MiB")
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    for server in running.servers:
        server.options += ("--backing", f"flash:{tmp_path}/log{server.port}")
    try:
        running.start()
        yield running
    finally:
        running.end()


def test_durable_objects_survive_all_servers(durable):
    # Puts at each server in turn, so that each assigns a version right after it has got the
    # previous one from another server.
    for number in range(4):
        for space in NAMESPACES:
            done = pool(
                "cp", "-q", "--durable", "-", durable.location(space, str(number)),
                stdin=f"{space} {number}",
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
    for _ in range(2):
        restart_all(durable)
        for number in range(4):
            check(durable, str(number))
    for server in durable.servers:
        assert "could not be made durable" not in server.log()


def test_durable_striped_objects_survive_all_servers(durable, tmp_path):
    source = random_file(tmp_path, 6 * MIB)
    url = durable.location("large", "object")
    done = pool("cp", "-q", "--durable", source, url)
    assert done.returncode == 0, done.stderr
    used = sum(used_sizes(durable))
    restart_all(durable)
    assert digest(read_all(url)) == digest(source.read_bytes())
    time.sleep(6)  # more than a search for stripes without an object
    assert sum(used_sizes(durable)) > used - MIB
    assert digest(read_all(url)) == digest(source.read_bytes())
    assert pool("rm", url).returncode == 0
    wait_for(lambda: sum(used_sizes(durable)) < MIB, "memory that is free")


def damage_log(folder, marker):
    """Flips a byte of what the log has of an object. Returns how often that was found."""
    count = 0
    for path in folder.glob("log-*"):
        data = bytearray(path.read_bytes())
        position = data.find(marker)
        while position >= 0:
            data[position] ^= 1
            count += 1
            position = data.find(marker)
        path.write_bytes(data)
    return count


def test_damaged_objects_are_repaired_from_another_copy(durable, tmp_path):
    texts = {space: f"{space} " + space * 2000 for space in NAMESPACES}
    for space, text in texts.items():
        done = pool("cp", "-q", "--durable", "-", durable.location(space, "object"), stdin=text)
        assert done.returncode == 0, done.stderr
    durable.wait_until_whole()
    for server in durable.servers:
        server.kill()
    damaged = durable.servers[0]
    markers = [f"{space} {space}{space}".encode() for space in NAMESPACES]
    folder = tmp_path / f"log{damaged.port}"
    assert sum(damage_log(folder, marker) for marker in markers) > 0
    for server in durable.servers:
        server.start()
    for space, text in texts.items():  # at once: a reader does not notice it
        assert durable.text(space, "object") == text
    durable.wait_until_whole()
    assert "is damaged" in damaged.log()
    before = damaged.log().count("is damaged")
    restart_all(durable)
    assert damaged.log().count("is damaged") == before, "the log has the repaired objects"
    for space, text in texts.items():
        assert durable.text(space, "object") == text


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_server_whose_log_is_full_is_no_durable_copy(durable, tmp_path):
    full = durable.servers[0]
    full.kill()
    durable.wait_until_whole()
    folder = pathlib.Path(f"{tmp_path}/log{full.port}")
    shutil.rmtree(folder)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], check=True)
    try:
        fill_the_disk(durable, full)
    finally:
        for server in durable.servers:
            server.kill()
        subprocess.run(["umount", "-l", folder], check=True)


def fill_the_disk(durable, full):
    full.start()
    durable.wait_until_whole()
    text = "x" * (4 << 20)
    stored = [(space, str(i)) for i in range(2) for space in NAMESPACES]
    for space, name in stored:
        for _ in range(2):  # it may happen that another server takes over meanwhile
            done = pool("cp", "-q", "--durable", "-", durable.location(space, name), stdin=text)
            if "TND_EPEER" not in done.stderr:
                break
        assert done.returncode == 0, done.stderr
    wait_for(lambda: durable.entry(full)["problem"] != "", "a problem of the full server")
    assert durable.status()["missing"] > 0
    for space, name in stored[len(NAMESPACES) :]:
        assert pool("rm", durable.location(space, name)).returncode == 0
    for space, name in stored[: len(NAMESPACES) - 1]:
        assert pool("rm", durable.location(space, name)).returncode == 0
    durable.wait_until_whole()
    assert durable.entry(full)["problem"] == ""
    restart_all(durable)
    assert durable.text(*stored[len(NAMESPACES) - 1]) == text
