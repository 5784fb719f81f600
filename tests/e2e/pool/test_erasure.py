"""Real servers and a real etcd: large objects with an erasure code survive the loss of as many
servers as there are parity fragments, with their memory."""

import signal
import subprocess
import threading
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
    used_sizes,
    wait_until_missed,
)
from commands import BUILD, LIMIT_S, environment, pool, pool_json, wait_for

SPACE = "large"


class ErasureCluster(Cluster):
    """A cluster that stripes objects from 1 MiB on, with an erasure code for one namespace."""

    def __init__(self, folder, count, code):
        super().__init__(folder, count, "--stripe", "1MiB")
        self.code = code
        self.copies = 1 + int(code.partition("+")[2])  # as many losses

    def start(self):
        super().start()
        done = self.set_code(self.code)
        assert done.returncode == 0, done.stderr
        wait_for(lambda: self.status()["erasure"] == {SPACE: self.code}, "the setting")

    def set_code(self, code, space=SPACE):
        return pool("cluster", "set", self.location(""), space, "--erasure", code)

    def fragment_count(self):
        return sum(server["fragments"] for server in self.status()["servers"])

    def wait_until_whole(self):
        """Also by what the servers have found out since the last change."""
        super().wait_until_whole()
        wait_for(self.is_settled, "all fragments, " + "".join(s.log() for s in self.servers))

    def is_settled(self):
        """Nothing is missing for longer than a search for it takes."""
        for _ in range(3):
            if not self.is_whole():
                return False
            time.sleep(0.5)
        return True


def run_cluster(folder, count, code, is_durable=False):
    try:
        running = ErasureCluster(folder, count, code)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    for server in running.servers:
        if is_durable:
            server.options += ("--backing", f"flash:{folder}/log{server.port}")
    try:
        running.start()
        yield running
    finally:
        running.end()


@pytest.fixture
def four(tmp_path):
    """Four servers with 2+1: one more than a group has fragments."""
    yield from run_cluster(tmp_path, 4, "2+1")


@pytest.fixture
def three(tmp_path):
    """Three servers with 2+1."""
    yield from run_cluster(tmp_path, 3, "2+1")


@pytest.fixture
def six(tmp_path):
    """Six servers with 4+2."""
    yield from run_cluster(tmp_path, 6, "4+2")


def put_file(cluster, folder, size, name="object", seed=1):
    source = random_file(folder, size, seed)
    url = cluster.location(SPACE, name)
    done = pool("cp", "-q", source, url)
    assert done.returncode == 0, done.stderr
    return url, digest(source.read_bytes())


def test_an_object_takes_as_much_as_its_code_says(three, tmp_path):
    before = used_sizes(three)
    size = 12 * MIB
    url, expected = put_file(three, tmp_path, size)
    assert digest(read_all(url)) == expected
    assert pool_json("stat", url)["size"] == size
    grown = sum(used_sizes(three)) - sum(before)
    assert 1.5 * size <= grown < 1.6 * size, grown
    assert pool("rm", url).returncode == 0
    wait_for(lambda: used_sizes(three) == before, "memory that is free")


def test_small_objects_and_other_namespaces_have_copies(three, tmp_path):
    three.must_put(SPACE, "small", "text")
    assert three.text(SPACE, "small") == "text"
    before = sum(used_sizes(three))
    source = random_file(tmp_path, 4 * MIB)
    assert pool("cp", "-q", source, three.location("other", "object")).returncode == 0
    assert sum(used_sizes(three)) - before >= three.copies * 4 * MIB
    assert three.set_code("off").returncode == 0
    wait_for(lambda: three.status()["erasure"] == {}, "no setting")


def test_codes_that_do_not_fit_are_refused(three):
    refused = three.set_code("3+1")
    assert refused.returncode == 1 and "needs 4 servers, and the cluster has 3" in refused.stderr
    refused = three.set_code("1+1")
    assert refused.returncode == 1 and "2 to 16 data" in refused.stderr, refused.stderr
    refused = three.set_code("2x1")
    assert refused.returncode == 1 and "K+M" in refused.stderr, refused.stderr
    three.servers[0].kill()
    wait_until_missed(three, three.servers[0])
    put = pool("cp", "-q", "-", three.location(SPACE, "new"), stdin="x" * (2 * MIB))
    assert put.returncode == 1 and "2+1 needs 3 servers" in put.stderr, put.stderr


def test_calls_on_objects_with_an_erasure_code(three):
    done = subprocess.run(
        [BUILD / "bin/pool_striped"],
        env=environment(TANADA_TEST_POOL_URL=three.location(SPACE)),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0 and "SKIPPED" not in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_readers_do_not_notice_that_a_server_is_killed(four, tmp_path):
    url, expected = put_file(four, tmp_path, 16 * MIB)
    errors, counts, is_ending = [], [0] * 2, threading.Event()

    def read(i):
        while not is_ending.is_set():
            done = pool("cat", url, text=False)
            if done.returncode != 0 or digest(done.stdout) != expected:
                errors.append(done.stderr)
            counts[i] += 1

    readers = [threading.Thread(target=read, args=(i,)) for i in range(len(counts))]
    for reader in readers:
        reader.start()
    for server in four.servers:
        server.kill()
        before = list(counts)
        wait_for(
            lambda before=before: all(n > old + 2 for n, old in zip(counts, before, strict=True)),
            "reads without the server",
        )
        wait_until_missed(four, server)
        server.start()
        four.wait_until_whole()
    is_ending.set()
    for reader in readers:
        reader.join(LIMIT_S)
    assert not errors, errors
    assert four.status()["lost"] == 0


@pytest.mark.slow
def test_a_lost_server_is_replaced_by_another(four, tmp_path):
    url, expected = put_file(four, tmp_path, 10 * MIB)
    count = 15  # five groups
    wait_for(lambda: four.fragment_count() == count, "reports of fragments")
    lost = four.servers[1]
    lost.kill()
    wait_until_missed(four, lost)
    three_left = [server for server in four.servers if server is not lost]

    def is_rebuilt():
        entries = [four.entry(server) for server in three_left]
        return sum(entry["fragments"] for entry in entries) == count

    wait_for(is_rebuilt, "fragments at the others: " + "".join(s.log() for s in three_left))
    wait_for(lambda: four.status()["missing"] == 0, "nothing that is missing")
    # As many fragments as that can be lost a second time.
    again = three_left[0]
    again.kill()
    assert digest(read_all(url)) == expected


@pytest.mark.slow
def test_a_drained_server_gives_its_fragments_to_others(four, tmp_path):
    url, expected = put_file(four, tmp_path, 10 * MIB)
    count = 15  # five groups
    wait_for(lambda: four.fragment_count() == count, "reports of fragments")
    drained = four.servers[2]
    assert pool("cluster", "drain", four.location(""), drained.name).returncode == 0

    def is_empty():
        entry = four.entry(drained)
        return entry["copies"] == 0 and entry["fragments"] == 0

    wait_for(is_empty, "a server that is empty")
    assert four.fragment_count() == count and four.status()["missing"] == 0
    drained.kill()
    assert digest(read_all(url)) == expected


def test_a_paused_server_counts_as_lost(three, tmp_path):
    url, expected = put_file(three, tmp_path, 8 * MIB)
    paused = three.servers[0]
    paused.send(signal.SIGSTOP)
    try:
        assert digest(read_all(url)) == expected
    finally:
        paused.send(signal.SIGCONT)


def test_fragments_of_a_writer_that_is_killed_are_freed(three):
    before = used_sizes(three)
    writer = subprocess.Popen(
        [BUILD / "bin/tanada", "pool", "cp", "-q", "-", three.location(SPACE, "object")],
        env=environment(),
        stdin=subprocess.PIPE,
        preexec_fn=etcd.end_with_parent,
    )
    writer.stdin.write(bytes(12 * MIB))
    writer.stdin.flush()
    wait_for(lambda: sum(used_sizes(three)) > sum(before) + 4 * MIB, "fragments")
    writer.kill()
    writer.wait()
    wait_for(lambda: used_sizes(three) == before, "memory that is free")


@pytest.fixture
def durable(tmp_path):
    """Three servers with 2+1 and logs."""
    yield from run_cluster(tmp_path, 3, "2+1", is_durable=True)


@pytest.mark.slow
def test_durable_objects_survive_all_servers(durable, tmp_path):
    source = random_file(tmp_path, 6 * MIB)
    url = durable.location(SPACE, "object")
    done = pool("cp", "-q", "--durable", source, url)
    assert done.returncode == 0, done.stderr
    restart_all(durable)
    assert digest(read_all(url)) == digest(source.read_bytes())
    time.sleep(6)  # more than a search for fragments without an object
    durable.servers[0].kill()
    assert digest(read_all(url)) == digest(source.read_bytes())


@pytest.mark.slow
def test_two_of_six_servers_are_lost_at_once(six, tmp_path):
    url, expected = put_file(six, tmp_path, 40 * MIB)
    for first, second in ((0, 1), (2, 5), (3, 4)):
        lost = [six.servers[first], six.servers[second]]
        for server in lost:
            server.kill()
        assert digest(read_all(url)) == expected
        for server in lost:
            wait_until_missed(six, server)
            server.start()
        six.wait_until_whole()
    assert digest(read_all(url)) == expected
    assert six.status()["lost"] == 0
