"""Servers and clients of different versions of the protocol."""

import signal

import commands
import etcd
import pytest
from cluster_processes import (
    MIB,
    NAMESPACES,
    Cluster,
    Writer,
    check,
    digest,
    end_writers,
    fill,
    random_file,
    read_all,
    used_sizes,
)
from commands import LIMIT_S, pool, pool_json, wait_for

STRIPE = ("--stripe", "1MiB")
OLDER = ("--protocol", "5")
SIZE = 3 * MIB


@pytest.fixture
def older_clients(monkeypatch):
    """Calls of `tanada pool` are those of an earlier version."""
    newest = commands.environment

    def environment(**changes):
        return {**newest(**changes), "TND_POOL_PROTOCOL": "5"}

    monkeypatch.setattr(commands, "environment", environment)
    return monkeypatch


@pytest.fixture
def older(tmp_path, older_clients):
    """A cluster whose servers have an earlier version, as their clients."""
    assert older_clients
    try:
        running = Cluster(tmp_path, 3, *STRIPE, *OLDER)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        running.start()
        yield running
    finally:
        running.end()


def growth(cluster, before):
    return [size - old for size, old in zip(used_sizes(cluster), before, strict=True)]


def must(*words):
    done = pool(*words)
    assert done.returncode == 0, done.stderr


def problems(server):
    status = pool_json("cluster", "status", f"pool://{server.name}")
    return {entry["name"]: entry["problem"] for entry in status["servers"]}


def upgrade(cluster, server, rest):
    server.send(signal.SIGTERM)
    assert server.process.wait(LIMIT_S) == 0, server.log()
    server.options = STRIPE
    server.start()
    cluster.wait_until_whole()
    described = problems(server)
    for other in rest:
        assert "it has version 5 of the protocol" in described[other.name], described


def test_servers_are_upgraded_one_after_the_other(older, older_clients, tmp_path):
    fill(older)
    source = random_file(tmp_path, SIZE)
    before = used_sizes(older)
    must("cp", "-q", source, older.location("large", "whole"))
    assert sorted(growth(older, before))[0] < MIB, "no stripes"
    writers = [Writer(older, space) for space in NAMESPACES[:2]]
    for writer in writers:
        writer.start()
    for i, server in enumerate(older.servers):
        wait_for(lambda: all(writer.acknowledged > 2 for writer in writers), "writers that write")
        upgrade(older, server, older.servers[i + 1 :])
        check(older)
    end_writers(writers)
    last = older.servers[-1]
    wait_for(lambda: not any(problems(last).values()), "a cluster of one version")
    wait_for(lambda: "uses version 7 of the protocol" in older.servers[0].log(), "version 7")

    older_clients.undo()
    before = used_sizes(older)
    must("cp", "-q", source, older.location("large", "striped"))
    assert min(growth(older, before)) >= MIB, "stripes on all servers"
    for name in ("whole", "striped"):
        assert digest(read_all(older.location("large", name))) == digest(source.read_bytes())

    last.send(signal.SIGTERM)
    assert last.process.wait(LIMIT_S) == 0
    last.options = (*STRIPE, *OLDER)
    last.start()
    assert last.process.wait(LIMIT_S) != 0
    assert "the cluster uses version 7 of the protocol" in last.log()


def test_a_client_of_an_earlier_version(tmp_path, older_clients):
    try:
        cluster = Cluster(tmp_path, 3, *STRIPE)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        cluster.start()
        fill(cluster)
        check(cluster)
        source = random_file(tmp_path, SIZE)
        whole, striped = (cluster.location("large", name) for name in ("whole", "striped"))
        must("cp", "-q", source, whole)
        assert digest(read_all(whole)) == digest(source.read_bytes())
        older_clients.undo()
        must("cp", "-q", source, striped)
        older_clients.setattr(
            commands, "environment", lambda **_: {"PATH": "/bin", "TND_POOL_PROTOCOL": "5"}
        )
        refused = pool("cat", striped, text=False)
        assert refused.returncode == 1 and b"EOPNOTSUPP" in refused.stderr, refused.stderr
        listed = pool("ls", cluster.location("large")).stdout
        assert "striped" in listed and "whole" in listed
        must("mv", striped, cluster.location("large", "moved"))
        must("rm", cluster.location("large", "moved"))
    finally:
        cluster.end()


def test_a_client_that_is_newer_than_the_servers_is_refused(older, older_clients):
    older_clients.undo()
    refused = pool("ls", older.location(NAMESPACES[0]))
    assert refused.returncode == 1 and "supports only versions 5 to 5" in refused.stderr
