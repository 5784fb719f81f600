"""Commands that show a cluster as a whole."""

import json

from cluster_processes import MIB, NAMESPACES, fill
from commands import pool, pool_json

SIZE = 2 * MIB


def test_namespaces_of_all_servers_are_listed(cluster):
    fill(cluster)
    cluster.must_put("large", "object", "x" * SIZE)
    entries = {}
    for server in cluster.servers:  # whichever is named
        listed = pool_json("ls", f"pool://{server.name}")["namespaces"]
        entries = {entry["name"]: entry for entry in listed}
        assert sorted(entries) == sorted([*NAMESPACES, "large"])
        assert [entry["object_count"] for entry in listed] == [1] * len(listed), listed
    large = entries["large"]
    assert SIZE <= large["used"] < 2 * SIZE, large
    assert large["owned"] >= 2 * SIZE and len(large["servers"]) == 2, large
    assert set(large["servers"]) < {server.name for server in cluster.servers}
    text = pool("ls", cluster.location("")).stdout
    assert all(f"  {name}\n" in text for name in entries), text

    own = [
        pool_json("ls", "--one-server", f"pool://{s.name}")["namespaces"] for s in cluster.servers
    ]
    assert sum("large" in [entry["name"] for entry in listed] for listed in own) == 2, own


def test_counts_are_those_of_all_servers(cluster):
    fill(cluster)
    cluster.must_put("large", "object", "x" * SIZE)
    document = pool_json("stat", cluster.location("large"))
    total, parts = document["statistics"], document["servers"]
    assert [part["name"] for part in parts] == sorted(server.name for server in cluster.servers)
    for key in ("capacity", "used", "object_count", "commits", "written_size"):
        assert total[key] == sum(part[key] for part in parts), key
    assert total["capacity"] == 3 * 64 * MIB
    assert total["used"] >= 2 * SIZE and total["written_size"] >= SIZE
    assert total["namespace_object_count"] == 1 and "namespace_used" not in parts[0]
    text = pool("stat", cluster.location("large")).stdout
    assert all(f"server    {server.name}: " in text for server in cluster.servers), text

    top = pool("top", cluster.location("large"), "--json", "--count", 2, "--period", 0.2)
    first, second = [json.loads(line) for line in top.stdout.splitlines()]
    assert first["capacity"] == second["capacity"] == total["capacity"]
    assert [server["name"] for server in second["servers"]] == [part["name"] for part in parts]
    assert set(second["servers"][0]["per_second"]) == set(second["per_second"])
    assert second["cluster"] == {
        "up": 3, "draining": 0, "away": 0, "missing": 0, "offline": 0, "lost": 0
    }  # fmt: skip
    text = pool("top", cluster.location("large"), "--count", 1).stdout
    assert "3 servers up, all copies there" in text
    assert all(f"server     {server.name} " in text for server in cluster.servers), text


def test_a_server_that_is_lost_is_left_out(cluster):
    fill(cluster)
    cluster.servers[2].kill()
    done = pool("ls", cluster.location(""), "--timeout", 5)
    # It counts as running until its lease has ended.
    assert done.returncode in (0, 1) and all(f"  {name}\n" in done.stdout for name in NAMESPACES)
    assert done.returncode == 0 or f"server {cluster.servers[2].name}: " in done.stderr
