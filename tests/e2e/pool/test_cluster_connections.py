"""Connections to a cluster's servers that end at a bad moment."""

import contextlib
import socket
import struct
import subprocess
import threading

import etcd
from cluster_processes import MIB, NAMESPACES, digest, fill, random_file, wait_until_missed
from commands import BUILD, LIMIT_S, environment, pool


class CuttingProxy:
    """Forwards connections to a server, and ends some right after the server's welcome."""

    LOCATE = 41  # kind of a request, and size and layout of a header, in core/wire/pool.hpp
    HEADER = struct.Struct("<IHHIiQQ")

    def __init__(self, server, cut_count):
        self.server, self.cut_count = server, cut_count
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.name = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self.server.port))
            for target, pair in (
                (self.requests, (client, upstream)),
                (self.bytes_of, (upstream, client)),
            ):
                threading.Thread(target=target, args=pair, daemon=True).start()

    def requests(self, client, upstream):
        count = 0
        with client.makefile("rb") as stream:
            while len(header := stream.read(self.HEADER.size)) == self.HEADER.size:
                _, kind, _, body_size, _, _, data_size = self.HEADER.unpack(header)
                # Without a handshake before it, the request is from a search for the server.
                if kind == self.LOCATE and count > 0 and self.cut_count > 0:
                    self.cut_count -= 1
                    break
                upstream.sendall(header + stream.read(body_size + data_size))
                count += 1
        self.end(client, upstream)

    def bytes_of(self, upstream, client):
        try:
            while received := upstream.recv(65536):
                client.sendall(received)
        except OSError:
            pass
        self.end(client, upstream)

    @staticmethod
    def end(*connections):
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_ends_after_its_handshake_is_made_again(cluster):
    fill(cluster)
    proxy = CuttingProxy(cluster.servers[0], 3)
    for space in NAMESPACES:
        done = pool("cat", f"pool://{proxy.name}/{space}/first")
        assert done.stdout == f"{space} first", done.stderr
    assert proxy.cut_count == 0
    proxy.listener.close()


def test_an_open_object_outlives_its_connection(cluster, tmp_path):
    source = random_file(tmp_path, 20 * MIB)
    url = cluster.location("large", "object")
    assert pool("cp", "-q", source, url).returncode == 0
    for server in cluster.servers:
        # It waits for its output to be read, and does not notice before that its server is lost.
        reader = subprocess.Popen(
            [BUILD / "bin/tanada", "pool", "cat", url],
            env=environment(),
            bufsize=0,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=etcd.end_with_parent,
        )
        first = reader.stdout.read(1)
        server.kill()
        rest, errors = reader.communicate(timeout=LIMIT_S)
        assert reader.returncode == 0, errors.decode()
        assert digest(first + rest) == digest(source.read_bytes())
        wait_until_missed(cluster, server)
        server.start()
        cluster.wait_until_whole()
