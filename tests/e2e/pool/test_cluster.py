"""Three real servers and a real etcd: what was acknowledged stays, whichever server is lost."""

import random
import signal
import subprocess
import threading
import time
import urllib.request

import etcd
import pytest
from cluster_processes import (
    LEASE_S,
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
    wait_until_missed,
)
from commands import BUILD, LIMIT_S, environment, pool, pool_json, wait_for

PATIENT_LEASE_S = 60
STOP_LIMIT_S = 10  # of a commit while a server stops, on a busy machine


@pytest.fixture
def striped(tmp_path):
    """A cluster that stripes objects from 1 MiB on."""
    try:
        running = Cluster(tmp_path, 3, "--stripe", "1MiB")
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        running.start()
        yield running
    finally:
        running.end()


def test_any_server_leads_to_the_one_that_serves(cluster):
    fill(cluster)
    for server in cluster.servers:
        for space in NAMESPACES:
            done = pool("cat", f"pool://{server.name}/{space}/first")
            assert done.stdout == f"{space} first", done.stderr
    status = cluster.status()
    assert status["copies"] == 2 and status["offline"] == 0 and status["lost"] == 0
    shares = [server["primaries"] for server in status["servers"]]
    assert len(shares) == 3 and all(share > 40 for share in shares), shares


def test_each_server_is_killed_while_clients_write(cluster):
    fill(cluster)
    writers = [Writer(cluster, space) for space in NAMESPACES[:3]]
    for writer in writers:
        writer.start()
    for server in cluster.servers:
        wait_for(lambda: all(w.acknowledged > 2 for w in writers), "writers that write")
        before = [writer.acknowledged for writer in writers]
        server.kill()
        wait_for(
            lambda before=before: all(
                writer.acknowledged > old + 2 for writer, old in zip(writers, before, strict=True)
            ),
            "writers that go on without the server",
        )
        check(cluster)
        wait_until_missed(cluster, server)
        server.start()
        cluster.wait_until_whole()
    end_writers(writers)
    check(cluster)
    assert cluster.status()["lost"] == 0


@pytest.fixture
def patient_cluster(tmp_path):
    """Its leases are so long that nobody can wait for their end."""
    try:
        running = Cluster(tmp_path, 3, lease_s=PATIENT_LEASE_S)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        running.start()
        yield running
    finally:
        running.end()


def test_reads_go_on_while_nobody_has_taken_over(patient_cluster):
    cluster = patient_cluster
    fill(cluster)
    time.sleep(0.2)  # until the servers know that it is settled
    begin_s = time.monotonic()
    cluster.servers[0].kill()
    check(cluster)
    for space in NAMESPACES:
        listed = pool("ls", cluster.location(space))
        assert listed.returncode == 0 and "first" in listed.stdout, listed.stderr
    took_s = time.monotonic() - begin_s
    assert took_s < cluster.lease_s / 2, took_s
    # Changes of two of three namespaces have to wait: the server has a copy of them.
    codes = set()
    while codes != {0, 1} and time.monotonic() - begin_s < cluster.lease_s * 3 / 4:
        place = cluster.location(f"more{random.randrange(10**6)}", "first")
        codes.add(pool("cp", "-q", "-", place, "--timeout", "3", stdin="x").returncode)
    assert codes == {0, 1}, codes


def test_a_rolling_restart_holds_nobody_up(patient_cluster):
    cluster = patient_cluster
    fill(cluster)
    writers = [Writer(cluster, space) for space in NAMESPACES[:3]]
    for writer in writers:
        writer.start()
    for server in cluster.servers:
        wait_for(lambda: all(w.acknowledged > 2 for w in writers), "writers that write")
        server.send(signal.SIGTERM)
        assert server.process.wait(LIMIT_S) == 0, server.log()
        check(cluster)
        server.start()
        cluster.wait_until_whole()
    end_writers(writers)
    check(cluster)
    # With each command's start; the machine may be busy.
    gaps_s = [writer.longest_gap_s for writer in writers]
    assert max(gaps_s) < STOP_LIMIT_S, gaps_s


def test_a_server_without_space_holds_nobody_up(cluster):
    fill(cluster)
    text = "x" * (8 << 20)
    results = [cluster.put(f"large{i}", "object", text).returncode for i in range(16)]
    assert 0 in results and 1 in results, results
    check(cluster)
    stored = [i for i, code in enumerate(results) if code == 0]
    for i in stored:
        assert cluster.text(f"large{i}", "object") == text
    for i in stored:
        assert pool("rm", cluster.location(f"large{i}", "object")).returncode == 0
    cluster.wait_until_whole()
    check(cluster)


def test_a_server_that_is_drained_can_go(cluster):
    fill(cluster)
    drained = cluster.servers[0]
    assert pool("cluster", "drain", cluster.location(""), drained.name).returncode == 0

    def is_empty():
        entry = cluster.entry(drained)
        return entry["state"] == "draining" and entry["copies"] == 0

    wait_for(is_empty, "a server that is empty")
    assert cluster.status()["missing"] == 0
    listed = ("ls", "--one-server", f"pool://{drained.name}")
    wait_for(lambda: not pool(*listed).stdout, "memory that is free")
    drained.kill()
    check(cluster)
    drained.start()
    # It may be the server that is asked, and that has not joined yet.
    added = pool("cluster", "add", cluster.location(""), drained.name)
    assert added.returncode == 0, added.stderr
    wait_for(lambda: cluster.entry(drained)["copies"] > 40, "its share")
    unknown = pool("cluster", "drain", cluster.location(""), "nobody:1")
    assert unknown.returncode == 1 and "no server nobody:1" in unknown.stderr


def test_a_server_that_has_not_joined_does_not_deny_the_others(cluster):
    restarted, other = cluster.servers[:2]
    restarted.kill()
    member = cluster.etcd.members[0]
    member.send_signal(signal.SIGSTOP)
    try:
        restarted.start()
        for action in ("add", "drain", "remove"):
            command = ("cluster", action, f"pool://{restarted.name}", other.name, "--timeout", 2)
            text = "the server has not joined its cluster yet"
            wait_for(lambda command=command, text=text: text in pool(*command).stderr, text)
    finally:
        member.send_signal(signal.SIGCONT)


def test_a_drain_that_cannot_end_says_why(cluster):
    fill(cluster)
    url = cluster.location("")
    drained = cluster.servers[:2]
    for server in drained:
        assert pool("cluster", "drain", url, server.name).returncode == 0
    text = "it cannot be emptied: its copies need 2 servers that are not draining"
    wait_for(lambda: all(text in cluster.entry(each)["problem"] for each in drained), text)
    assert pool("cluster", "add", url, drained[0].name).returncode == 0
    wait_for(lambda: cluster.entry(drained[1])["copies"] == 0, "a server that is empty")
    assert cluster.entry(drained[1])["problem"] == ""


def test_copies_on_a_lost_server_are_missing_before_its_lease_ends(patient_cluster):
    lost = patient_cluster.servers[2]
    lost.kill()
    wait_for(lambda: patient_cluster.status()["missing"] > 0, "copies that are missing")
    entry = patient_cluster.entry(lost)
    assert entry["state"] == "up" and entry["problem"] == "it cannot be reached"
    assert patient_cluster.status()["offline"] == 0


def test_a_stopped_server_does_not_serve_what_is_old(cluster):
    fill(cluster)
    stopped = cluster.servers[0]
    stopped.send(signal.SIGSTOP)
    for space in NAMESPACES:
        cluster.must_put(space, "first", f"{space} second")
    stopped.send(signal.SIGCONT)
    for space in NAMESPACES:
        done = pool("cat", f"pool://{stopped.name}/{space}/first")
        assert done.stdout == f"{space} second", done.stderr
    cluster.wait_until_whole()


def test_without_etcd_it_stops_and_loses_nothing(cluster):
    fill(cluster)
    member = cluster.etcd.members[0]
    member.send_signal(signal.SIGSTOP)
    time.sleep(2 * LEASE_S)
    refused = pool("cat", cluster.location(NAMESPACES[0], "first"), "--timeout", 2)
    assert refused.returncode == 1 and "etcd" in refused.stderr, refused.stderr
    member.send_signal(signal.SIGCONT)
    check(cluster)
    cluster.wait_until_whole()


def start_alone(server):
    """As a pool of one server."""
    alone = subprocess.Popen(
        [
            BUILD / "bin/tanada-poold", "--port", str(server.port), "--size", "64MiB",
            "--segment-size", "2MiB", "--no-prefault", *server.options,
        ],
        env=environment(),
        preexec_fn=etcd.end_with_parent,
    )  # fmt: skip
    wait_for(
        lambda: pool("ls", f"pool://{server.name}/{NAMESPACES[0]}").returncode == 0, "a server"
    )
    return alone


def refusal(*words):
    done = pool("cluster", *words)
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_a_server_that_is_gone_is_known_until_it_is_removed(cluster):
    fill(cluster)
    gone = cluster.servers[2]
    url = cluster.location("")
    assert "runs: drain it and stop it first" in refusal("remove", url, gone.name)
    gone.kill()
    wait_for(lambda: cluster.entry(gone)["state"] == "away", "a server that is away")
    wait_for(lambda: cluster.status()["missing"] == 0, "copies on the others")
    entry = cluster.entry(gone)
    assert entry["state"] == "away" and entry["copies"] == 0
    assert pool("cluster", "remove", url, gone.name).returncode == 0
    assert gone.name not in [server["name"] for server in cluster.status()["servers"]]
    assert "no server" in refusal("remove", url, gone.name)
    check(cluster)
    log = "".join(server.log() for server in cluster.servers[:2])
    assert f"server {gone.name} is not in the cluster any more" in log
    assert "partitions are served by this server now" in log


def test_what_only_a_removed_server_has_is_lost_by_force(cluster):
    fill(cluster)
    url = cluster.location("")
    kept, *gone = cluster.servers
    for server in gone:  # as many as there are copies
        server.kill()
    wait_for(lambda: all(cluster.entry(server)["state"] == "away" for server in gone), "a loss")
    assert cluster.status()["offline"] > 0
    # The one whose lease ended first has nothing that the other has not.
    refused = [
        server for server in gone if pool("cluster", "remove", url, server.name).returncode != 0
    ]
    assert refused
    for server in refused:
        assert "may have the only copy of" in refusal("remove", url, server.name)
        done = pool("cluster", "remove", "--force", url, server.name)
        assert done.returncode == 0, done.stderr
        assert "may have the only copy of" in done.stdout, done.stdout
    status = cluster.status()
    assert status["offline"] == 0 and status["lost"] > 0
    assert [server["name"] for server in status["servers"]] == [kept.name]
    cluster.must_put(NAMESPACES[0], "first", "again")
    assert pool("cluster", "clear-lost", url).returncode == 0
    assert cluster.status()["lost"] == 0


def test_metrics_describe_the_cluster(tmp_path):
    try:
        cluster = Cluster(tmp_path, 2)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    first, second = cluster.servers
    (web_port,) = etcd.free_ports(1)
    first.options = ("--web-port", str(web_port))

    def metrics():
        with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/metrics", timeout=5) as answer:
            return answer.read().decode()

    try:
        first.start()
        wait_for(lambda: pool("cluster", "status", f"pool://{first.name}").returncode == 0, "one")
        cluster.must_put(NAMESPACES[0], "first", "x" * 1000)
        second.start()
        wait_for(lambda: "tanada_pool_cluster_missing_copies 0\n" in metrics(), "both copies")
        text = metrics()
        assert 'tanada_pool_cluster_servers{state="up"} 2\n' in text
        assert "tanada_pool_cluster_repaired_bytes_total 1000\n" in text, text
        second.kill()
        wait_for(lambda: 'servers{state="away"} 1\n' in metrics(), "a server that is away")
        assert "tanada_pool_cluster_missing_copies 256\n" in metrics()
    finally:
        cluster.end()


def test_status_reports_how_old_it_is(cluster):
    member = cluster.etcd.members[0]
    member.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: cluster.status()["silence_s"] > 3, "an old status")
        done = pool("cluster", "status", cluster.location(""))
        assert "etcd does not answer" in done.stdout, done.stdout
    finally:
        member.send_signal(signal.SIGCONT)
    wait_for(lambda: cluster.status()["silence_s"] == 0, "a new status")
    assert "etcd does not answer" in cluster.servers[0].log()


def test_a_server_with_another_key_is_named(tmp_path):
    try:
        cluster = Cluster(tmp_path, 2)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    keys = []
    for server in cluster.servers:
        path = tmp_path / f"keys-{server.port}"
        pool("key", "new", "--namespaces", "*", "--output", path)
        server.options = ("--key-file", path)
        keys.append(path)
    first, other = cluster.servers
    words = ("cluster", "status", f"pool://{first.name}", "--key-file", keys[0])
    try:
        first.start()
        wait_for(lambda: pool(*words).returncode == 0, "a server")
        other.start()
        wait_for(lambda: "its key is not that of" in pool(*words).stdout, pool(*words).stdout)
        assert "its key is not that of" in first.log()
    finally:
        cluster.end()


def test_a_durable_pool_becomes_a_cluster(tmp_path):
    try:
        cluster = Cluster(tmp_path, 3)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    first = cluster.servers[0]
    first.options = ("--backing", f"flash:{tmp_path}/log")
    try:
        alone = start_alone(first)
        url = f"pool://{first.name}/{NAMESPACES[0]}"
        assert pool("cp", "-q", "--durable", "-", f"{url}/old", stdin="old").returncode == 0
        alone.send_signal(signal.SIGTERM)
        alone.wait(LIMIT_S)
        first.start()
        wait_for(lambda: pool("cluster", "status", url).returncode == 0, "a cluster of one server")
        assert cluster.text(NAMESPACES[0], "old") == "old"
        for server in cluster.servers[1:]:
            server.start()
        cluster.wait_until_whole()
        first.kill()
        assert cluster.text(NAMESPACES[0], "old") == "old"
    finally:
        cluster.end()


def test_a_server_with_objects_of_another_cluster_is_refused(tmp_path):
    try:
        cluster = Cluster(tmp_path, 2)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    first, second = cluster.servers
    second.options = ("--backing", f"flash:{tmp_path}/log")
    url = f"pool://{second.name}/{NAMESPACES[0]}"
    try:
        alone = start_alone(second)
        assert pool("cp", "-q", "--durable", "-", f"{url}/own", stdin="own").returncode == 0
        alone.terminate()
        alone.wait(LIMIT_S)
        first.start()
        wait_for(lambda: pool("cluster", "status", f"pool://{first.name}").returncode == 0, "one")

        second.start()
        assert second.process.wait(LIMIT_S) != 0
        assert "has objects of its own" in second.log()

        # With a cluster of its own, and then without the etcd that knows it.
        for name, options, is_served in (
            ("one", (), True),
            ("test", (), False),
            ("two", (), False),
            ("two", ("--new-cluster",), True),
        ):
            second.options = ("--backing", f"flash:{tmp_path}/log", *options)
            cluster.url = f"etcd://127.0.0.1:{cluster.etcd.client_ports[0]}/{name}"
            second.start()
            if is_served:
                wait_for(lambda: pool("cat", f"{url}/own").stdout == "own", second.log())
                second.send(signal.SIGTERM)
                assert second.process.wait(LIMIT_S) == 0
            else:
                assert second.process.wait(LIMIT_S) != 0, name
        assert "objects belong to cluster" in second.log()
        assert "which etcd does not know" in second.log()
    finally:
        cluster.end()


def test_a_wrong_address_of_etcd_is_an_error(tmp_path):
    (port,) = etcd.free_ports(1)
    begin_s = time.monotonic()
    done = subprocess.run(
        [
            BUILD / "bin/tanada-poold", "--size", "4MiB", "--segment-size", "2MiB",
            "--port", str(port), "--cluster", "etcd://127.0.0.1:1/x",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode != 0 and "etcd did not answer within 15 s" in done.stderr, done.stderr
    assert time.monotonic() - begin_s < LIMIT_S / 2


LARGE = 72 * MIB  # more than a server's memory


def test_an_object_is_larger_than_a_server(striped, tmp_path):
    before = used_sizes(striped)
    source = random_file(tmp_path, LARGE)
    url = striped.location("large", "object")
    for _ in range(2):  # the memory of the first one is free for the second
        done = pool("cp", "-q", source, url)
        assert done.returncode == 0, done.stderr
        assert digest(read_all(url)) == digest(source.read_bytes())
        about = pool_json("stat", url)
        assert about["size"] == LARGE
        (entry,) = pool_json("ls", striped.location("large"))["objects"]
        assert entry["name"] == "object" and entry["size"] == LARGE
        shares = [size - old for size, old in zip(used_sizes(striped), before, strict=True)]
        assert min(shares) > 0.8 * max(shares), shares
        assert sum(shares) > 2 * LARGE
        assert pool("rm", url).returncode == 0
        wait_for(lambda: used_sizes(striped) == before, "memory that is free")


def test_a_full_cluster_evicts_striped_objects(striped, tmp_path):
    source = random_file(tmp_path, 24 * MIB)
    for i in range(6):  # four fill the servers, and 200 MiB are more than all of them have
        url = striped.location("cache", f"object{i}")
        done = pool("cp", "-q", "--evictable", source, url)
        assert done.returncode == 0, done.stderr
        assert digest(read_all(url)) == digest(source.read_bytes())
    names = [entry["name"] for entry in pool_json("ls", striped.location("cache"))["objects"]]
    assert "object5" in names and "object0" not in names, names
    full = pool("cp", "-q", random_file(tmp_path, 200 * MIB, 2), striped.location("cache", "x"))
    assert full.returncode == 1 and "no space" in full.stderr, full.stderr
    assert any(f"pool at {server.name}: " in full.stderr for server in striped.servers), full.stderr


def test_a_replaced_object_frees_its_stripes(striped, tmp_path):
    url = striped.location("large", "object")
    first, second = (random_file(tmp_path, 8 * MIB, seed) for seed in (1, 2))
    assert pool("cp", "-q", first, url).returncode == 0
    wait_for(lambda: sum(used_sizes(striped)) >= 2 * 8 * MIB, "two copies")
    one = used_sizes(striped)
    assert pool("cp", "-q", second, url).returncode == 0
    wait_for(lambda: used_sizes(striped) <= [size + MIB for size in one], "one object's memory")
    assert digest(read_all(url)) == digest(second.read_bytes())
    renamed = striped.location("large", "renamed")
    assert pool("mv", url, renamed).returncode == 0
    assert digest(read_all(renamed)) == digest(second.read_bytes())


def test_readers_do_not_notice_that_a_server_is_killed(striped, tmp_path):
    source = random_file(tmp_path, 16 * MIB)
    expected = digest(source.read_bytes())
    url = striped.location("large", "object")
    assert pool("cp", "-q", source, url).returncode == 0
    errors, counts, is_ending = [], [0] * 3, threading.Event()

    def read(i):
        while not is_ending.is_set():
            done = pool("cat", url, text=False)
            if done.returncode != 0 or digest(done.stdout) != expected:
                errors.append(done.stderr)
            counts[i] += 1

    readers = [threading.Thread(target=read, args=(i,)) for i in range(len(counts))]
    for reader in readers:
        reader.start()
    for server in striped.servers:
        before = list(counts)
        wait_for(lambda before=before: counts > [n + 1 for n in before], "reads")
        server.kill()
        before = list(counts)
        wait_for(
            lambda before=before: all(n > old + 2 for n, old in zip(counts, before, strict=True)),
            "reads without the server",
        )
        wait_until_missed(striped, server)
        server.start()
        striped.wait_until_whole()
    is_ending.set()
    for reader in readers:
        reader.join(LIMIT_S)
    assert not errors, errors
    assert striped.status()["lost"] == 0


def test_stripes_of_a_writer_that_is_killed_are_freed(striped):
    before = used_sizes(striped)
    writer = subprocess.Popen(
        [BUILD / "bin/tanada", "pool", "cp", "-q", "-", striped.location("large", "object")],
        env=environment(),
        stdin=subprocess.PIPE,
        preexec_fn=etcd.end_with_parent,
    )
    writer.stdin.write(bytes(12 * MIB))
    writer.stdin.flush()
    wait_for(lambda: sum(used_sizes(striped)) > sum(before) + 4 * MIB, "stripes")
    writer.kill()
    writer.wait()
    wait_for(lambda: used_sizes(striped) == before, "memory that is free")


def test_calls_on_striped_objects(striped):
    done = subprocess.run(
        [BUILD / "bin/pool_striped"],
        env=environment(TANADA_TEST_POOL_URL=striped.location("calls")),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0 and "SKIPPED" not in done.stdout, done.stdout + done.stderr


def test_names_of_hidden_namespaces_are_not_listed(striped, tmp_path):
    source = random_file(tmp_path, 4 * MIB)
    assert pool("cp", "-q", source, striped.location("large", "object")).returncode == 0
    for server in striped.servers:
        listed = pool("ls", "--one-server", f"pool://{server.name}").stdout
        assert "/" not in listed.replace("//", ""), listed


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--cluster", "etcd://127.0.0.1:1/x", "--stripe", "1KiB"], "--stripe is 64KiB"),
        (["--cluster", "etcd://127.0.0.1:1/x", "--stripe", "65GiB"], "--stripe is 64KiB"),
        (["--cluster", "etcd://127.0.0.1:1"], "etcd"),
        (["--cluster", "http://127.0.0.1:1/x"], "etcd"),
        (["--cluster", "etcd://127.0.0.1:1/x", "--port", "0"], "--port or --advertise"),
        (["--cluster", "etcd://127.0.0.1:1/x", "--lease", "1s"], "--lease is 2s"),
        (["--cluster", "etcd://127.0.0.1:1/x", "--copies", "0"], "--copies is 1 to 3"),
        (["--cluster", "etcd://127.0.0.1:1/x", "--copies", "4"], "--copies is 1 to 3"),
        (["--cluster", "etcd://127.0.0.1:1/x", "--etcd-password-file", "/none"], "/none"),
    ],
)
def test_wrong_settings_are_refused(options, reason):
    done = subprocess.run(
        [BUILD / "bin/tanada-poold", "--size", "4MiB", "--segment-size", "2MiB", *options],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode != 0 and reason in done.stderr, done.stderr


def test_a_pool_of_one_server_is_no_cluster(daemon):
    done = pool("cluster", "status", daemon.url())
    assert done.returncode == 1 and "belongs to no cluster" in done.stderr
