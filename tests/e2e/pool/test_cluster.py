"""Three real servers and a real etcd: what was acknowledged stays, whichever server is lost."""

import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from commands import BUILD, LIMIT_S, environment, pool, pool_json, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fixtures"))
import etcd  # noqa: E402

LEASE_S = 2
STOP_LIMIT_S = 2  # of a commit while a server stops
NAMESPACES = [f"space{i}" for i in range(12)]  # in different partitions


class Server:
    def __init__(self, cluster, port, *options):
        self.cluster, self.port, self.options = cluster, port, options
        self.name = f"127.0.0.1:{port}"
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [
                BUILD / "bin/tanada-poold", "--port", str(self.port), "--size", "64MiB",
                "--segment-size", "2MiB", "--no-prefault", "--cluster", self.cluster.url,
                "--copies", "2", "--lease", f"{self.cluster.lease_s}s", *self.options,
            ],
            env=environment(),
            stdout=open(self.cluster.folder / f"{self.port}.log", "ab"),
            stderr=subprocess.STDOUT,
            preexec_fn=etcd.end_with_parent,
        )  # fmt: skip

    def kill(self):
        self.process.kill()
        self.process.wait()

    def send(self, number):
        self.process.send_signal(number)

    def log(self):
        return (self.cluster.folder / f"{self.port}.log").read_text(errors="replace")


class Cluster:
    """An etcd and servers."""

    def __init__(self, folder, count, *options, lease_s=LEASE_S):
        self.folder, self.lease_s = folder, lease_s
        self.etcd = etcd.Cluster(folder, 1, False)
        self.etcd.start()
        self.url = f"etcd://127.0.0.1:{self.etcd.client_ports[0]}/test"
        self.servers = [Server(self, port, *options) for port in etcd.free_ports(count)]

    def start(self):
        for server in self.servers:
            server.start()
        self.wait_until_whole()

    def end(self):
        for server in self.servers:
            if server.process is not None:
                server.send(signal.SIGCONT)
                server.kill()
        self.etcd.end()

    def location(self, space, name=""):
        hosts = ",".join(server.name for server in self.servers)
        return f"pool://{hosts}/{space}" + (f"/{name}" if name else "")

    def status(self):
        return pool_json("cluster", "status", self.location(""))

    def entry(self, server):
        (entry,) = [each for each in self.status()["servers"] if each["name"] == server.name]
        return entry

    def is_whole(self):
        done = pool("cluster", "status", self.location(""), "--json", "--timeout", 5)
        if done.returncode != 0:
            return False
        text = done.stdout
        names = [server.name for server in self.servers if server.process.poll() is None]
        return '"missing": 0' in text and all(f'"{name}"' in text for name in names)

    def wait_until_whole(self):
        wait_for(self.is_whole, "all copies, " + "".join(each.log() for each in self.servers))

    def put(self, space, name, text):
        return pool("cp", "-q", "-", self.location(space, name), stdin=text)

    def must_put(self, space, name, text):
        done = self.put(space, name, text)
        assert done.returncode == 0, done.stderr

    def text(self, space, name):
        done = pool("cat", self.location(space, name))
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def cluster(tmp_path):
    try:
        running = Cluster(tmp_path, 3)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        running.start()
        yield running
    finally:
        running.end()


def fill(cluster):
    for space in NAMESPACES:
        cluster.must_put(space, "first", f"{space} first")


def check(cluster, name="first"):
    for space in NAMESPACES:
        assert cluster.text(space, name) == f"{space} {name}"


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


class Writer(threading.Thread):
    """Puts one version after the other, and remembers the acknowledged one."""

    def __init__(self, cluster, space):
        super().__init__(daemon=True)
        self.cluster, self.space = cluster, space
        self.begun = self.acknowledged = 0
        self.longest_gap_s, self.acknowledged_s = 0.0, None
        self.errors = []
        self.is_ending = False

    def run(self):
        while not self.is_ending:
            self.begun += 1
            done = self.cluster.put(self.space, "counter", str(self.begun))
            if done.returncode == 0:
                self.acknowledged = self.begun
                time_s = time.monotonic()
                gap_s = time_s - (self.acknowledged_s or time_s)
                self.longest_gap_s = max(self.longest_gap_s, gap_s)
                self.acknowledged_s = time_s
            else:
                self.errors.append(done.stderr)

    def check(self):
        value = int(self.cluster.text(self.space, "counter"))
        assert self.acknowledged <= value <= self.begun, (self.space, self.errors)


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
        server.start()
        cluster.wait_until_whole()
    for writer in writers:
        writer.is_ending = True
    for writer in writers:
        writer.join(LIMIT_S)
        writer.check()
    check(cluster)
    assert cluster.status()["lost"] == 0


@pytest.fixture
def patient_cluster(tmp_path):
    """Its leases are so long that nobody can wait for their end."""
    try:
        running = Cluster(tmp_path, 3, lease_s=30)
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
    # The clients of some namespaces have to wait before they may write.
    refused = [
        pool("cp", "-q", "-", cluster.location(space, "second"), "--timeout", "1", stdin="x")
        for space in NAMESPACES
    ]
    assert {done.returncode for done in refused} == {0, 1}, refused


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
    for writer in writers:
        writer.is_ending = True
    for writer in writers:
        writer.join(LIMIT_S)
        writer.check()
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
    wait_for(lambda: not pool("ls", f"pool://{drained.name}").stdout, "memory that is free")
    drained.kill()
    check(cluster)
    drained.start()
    assert pool("cluster", "add", cluster.location(""), drained.name).returncode == 0
    wait_for(lambda: cluster.entry(drained)["copies"] > 40, "its share")
    unknown = pool("cluster", "drain", cluster.location(""), "nobody:1")
    assert unknown.returncode == 1 and "no server nobody:1" in unknown.stderr


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


@pytest.mark.parametrize(
    ("options", "reason"),
    [
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
