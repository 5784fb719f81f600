"""Servers that read each other's objects over a fabric."""

import errno
import socket
import struct

import etcd
import pytest
from cluster_processes import (
    MIB,
    NAMESPACES,
    Cluster,
    Writer,
    digest,
    end_writers,
    random_file,
    read_all,
    wait_until_missed,
)
from commands import BUILD, LIMIT_S, pool, wait_for

PROVIDER = "tcp;ofi_rxm"
SIZES = [0, 1, 65535, 65536, 65537, MIB - 1, 5 * MIB + 3]

pytestmark = pytest.mark.skipif(
    not (BUILD / "lib/libtanada_fabric.so").exists(), reason="built without libfabric"
)


def make_cluster(folder, *options):
    try:
        return Cluster(folder, 3, *options)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")


@pytest.fixture
def fabric_cluster(tmp_path):
    running = make_cluster(tmp_path, "--fabric", PROVIDER)
    try:
        running.start()
        yield running
    finally:
        running.end()


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory):
    running = make_cluster(tmp_path_factory.mktemp("cluster"), "--fabric", PROVIDER)
    try:
        running.start()
        yield running
    finally:
        running.end()


def fetched_size(cluster):
    """Bytes that the servers have read from each other over the fabric."""
    label = 'tanada_pool_written_bytes_total{path="fabric"}'
    running = [server for server in cluster.servers if server.process.poll() is None]
    return sum(server.metric(label) for server in running if server.port_file().exists())


def is_filled(entry):
    return entry["copies"] > 0 and entry["joining"] == 0


def put(cluster, space, name, path):
    done = pool("cp", "-q", path, cluster.location(space, name))
    assert done.returncode == 0, done.stderr


def test_copies_of_all_sizes_arrive(fabric_cluster, tmp_path):
    digests = {}
    for seed, size in enumerate(SIZES):
        path = random_file(tmp_path, size, seed)
        put(fabric_cluster, NAMESPACES[seed], f"object{size}", path)
        digests[NAMESPACES[seed], f"object{size}"] = digest(path.read_bytes())
    large = sum(size for size in SIZES if size >= 65536)
    assert fetched_size(fabric_cluster) == large
    # What another server serves is what was read.
    fabric_cluster.servers[0].kill()
    for (space, name), expected in digests.items():
        assert digest(read_all(fabric_cluster.location(space, name))) == expected, name


def test_a_server_that_returns_is_filled_over_the_fabric(fabric_cluster, tmp_path):
    path = random_file(tmp_path, 2 * MIB)
    lost = fabric_cluster.servers[1]
    lost.kill()
    wait_until_missed(fabric_cluster, lost)
    for space in NAMESPACES:
        put(fabric_cluster, space, "object", path)
    before = fetched_size(fabric_cluster)
    lost.start()
    fabric_cluster.wait_until_whole()
    wait_for(lambda: is_filled(fabric_cluster.entry(lost)), "a server that has its share")
    assert fetched_size(fabric_cluster) >= before + 2 * MIB
    expected = digest(path.read_bytes())
    fabric_cluster.servers[0].kill()
    for space in NAMESPACES:
        assert digest(read_all(fabric_cluster.location(space, "object"))) == expected


def test_kills_during_transfers_lose_nothing(fabric_cluster, tmp_path):
    """kill -9 of either side, while large and small objects are written."""
    path = random_file(tmp_path, 4 * MIB)
    expected = digest(path.read_bytes())
    writers = [Writer(fabric_cluster, space) for space in NAMESPACES[:2]]
    for writer in writers:
        writer.start()
    acknowledged = []
    for number in range(3):
        victim = fabric_cluster.servers[number]
        for space in NAMESPACES[2:6]:
            if (
                pool("cp", "-q", path, fabric_cluster.location(space, f"large{number}")).returncode
                == 0
            ):
                acknowledged.append((space, f"large{number}"))
            if space == NAMESPACES[3]:
                victim.kill()
        wait_until_missed(fabric_cluster, victim)
        victim.start()
        fabric_cluster.wait_until_whole()
    end_writers(writers)
    assert acknowledged
    for space, name in acknowledged:
        assert digest(read_all(fabric_cluster.location(space, name))) == expected


def test_a_server_without_a_fabric_gets_copies_by_tcp(tmp_path):
    running = make_cluster(tmp_path)
    try:
        for server in running.servers[:2]:
            server.options = ("--fabric", PROVIDER)
        running.start()
        path = random_file(tmp_path, MIB)
        for space in NAMESPACES:
            put(running, space, "object", path)
        running.servers[0].kill()
        expected = digest(path.read_bytes())
        for space in NAMESPACES:
            assert digest(read_all(running.location(space, "object"))) == expected
        assert "go over TCP" in running.servers[0].log() + running.servers[1].log()
    finally:
        running.end()


class Peer:
    """A connection without a namespace, as other servers have it."""

    HEADER = struct.Struct("<IHHIiQQ")  # as in core/wire/pool.hpp
    MAGIC, VERSION = 0x31444E54, 7
    HELLO, PROOF, FETCH = 1, 3, 63

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S)
        self.send(self.HELLO, struct.pack("<IHH", self.VERSION, 0, 0) + bytes(32))
        assert self.status() == 0
        self.send(self.PROOF, bytes(32))
        assert self.status() == 0

    def send(self, kind, body):
        header = self.HEADER.pack(self.MAGIC, kind, 0, len(body), 0, 1, 0)
        self.socket.sendall(header + body)

    def receive(self, size):
        return self.socket.recv(size, socket.MSG_WAITALL) if size > 0 else b""

    def status(self):
        """The status of the next reply; None: the server has ended the connection."""
        header = self.receive(self.HEADER.size)
        if len(header) < self.HEADER.size:
            return None
        _, _, _, body_size, code, _, _ = self.HEADER.unpack(header)
        self.receive(body_size)
        return code

    def fetch(self, size, parts, kind=0):
        name = struct.pack("<H", 5) + b"space"
        change = struct.pack("<IQBBB", 0, 1, kind, 1, 0) + name + name + struct.pack("<H", 0)
        change += struct.pack("<QQQQII", size, 1, 0, 0, 0, 0) + struct.pack("<IQQ", 0, 1, 0)
        body = change + struct.pack("<I", len(parts))
        self.send(self.FETCH, body + b"".join(struct.pack("<QQQQQ", *part) for part in parts))
        return self.status()


@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (10, []),
        (10, [(0, 1, 100, 0, 9)]),
        (10, [(0, 1, 100, 0, 11)]),
        (10, [(0, 1, 100, 95, 10)]),
        (10, [(0, 1, 100, 2**64 - 5, 10)]),
        (10, [(0, 1, 2**64 - 1, 0, 2**64 - 1), (0, 1, 100, 0, 11)]),
        (10, [(0, 1, 100, 0, 10), (0, 1, 100, 0, 0)]),
        (17, [(0, 1, 100, 0, 1)] * 17),
        (2**63, [(0, 1, 2**63, 0, 2**63)]),
    ],
)
def test_parts_that_are_not_the_object_end_the_connection(shared_cluster, size, parts):
    server = shared_cluster.servers[0]
    assert Peer(server).fetch(size, parts) is None
    assert server.process.poll() is None


def test_an_unproven_endpoint_is_not_read(shared_cluster):
    peer = Peer(shared_cluster.servers[0])
    assert peer.fetch(10, [(0, 1, 100, 0, 10)]) == -errno.EACCES
    assert peer.fetch(10, [(0, 1, 100, 0, 10)], kind=1) is None  # only a put has bytes
