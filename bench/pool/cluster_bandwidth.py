#!/usr/bin/env python3
"""Puts and gets of a large object that is striped over 1, 2 and 3 servers of a cluster, each in a
network namespace of its own behind a link of 1 Gb/s, beside the sum of these links; and of an
object of 64 MiB on one server, beside raw TCP over the same link.

usage: cluster_bandwidth.py [--size SIZE] [--rounds N] [--json FILE]

Needs root, for the network namespaces, and etcd. All servers, the client and the links are on one
machine: with few idle processors, the figures are those of the processors.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tests/fixtures")]

import etcd  # noqa: E402
from machine import save  # noqa: E402
from network import BRIDGE_ADDRESS, SUBNET, Network, NetworkError, isolate, run  # noqa: E402
from pool_daemon import BUILD  # noqa: E402
from results import print_short  # noqa: E402

SKIPPED = 77
LIMIT_S = 300
LINK_BITS = 10**9  # a second
PORT = 7440
TCP_SIZE = 64 << 20
# The part of Ethernet's frames that is TCP's data, with timestamps and without the preamble.
PAYLOAD_SHARE = 1448 / 1514
KEY = "bench 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f rw *\n"
RAW_SINK = """
import socket
listener = socket.create_server(("0.0.0.0", 9), backlog=1)
while True:
    peer, _ = listener.accept()
    buffer = bytearray(1 << 20)
    while True:
        left = int.from_bytes(peer.recv(8, socket.MSG_WAITALL), "little")
        if left == 0:
            break
        while left:
            left -= peer.recv_into(buffer, min(left, len(buffer)))
        peer.sendall(b"1")
"""
RAW_SOURCE = """
import socket, statistics, sys, time
size, rounds = int(sys.argv[2]), int(sys.argv[3])
peer = socket.create_connection((sys.argv[1], 9))
data, times = bytes(size), []
for _ in range(rounds + 1):
    begin = time.perf_counter()
    peer.sendall(size.to_bytes(8, "little"))
    peer.sendall(data)
    assert peer.recv(1) == b"1"
    times.append(time.perf_counter() - begin)
print(statistics.median(times[1:]))
"""


class Cluster:
    def __init__(self, folder, member, count, copies, size):
        self.folder, self.count = folder, count
        self.addresses = [f"{SUBNET}.{10 + i}" for i in range(count)]
        url = f"etcd://{member.host}:{member.client_ports[0]}/{folder.name}"
        self.keys = folder / "keys"
        self.keys.write_text(KEY)
        self.keys.chmod(0o600)
        # `tanada pool bench` asks that two versions of an object fit into one server.
        memory = 2 * copies * size + (512 << 20)
        self.commands = [
            [
                "ip", "netns", "exec", f"tnds{i}", BUILD / "bin/tanada-poold",
                "--listen", address, "--port", PORT, "--size", memory, "--no-prefault",
                "--key-file", self.keys, "--cluster", url, "--copies", copies,
            ]
            for i, address in enumerate(self.addresses)
        ]  # fmt: skip

    def __enter__(self):
        self.servers = [
            subprocess.Popen(
                [str(word) for word in command],
                stdout=open(self.folder / f"{i}.log", "w"),
                stderr=subprocess.STDOUT,
                preexec_fn=etcd.end_with_parent,
            )
            for i, command in enumerate(self.commands)
        ]
        self.wait_until_whole()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()
            server.wait()

    def tanada(self, *words):
        return subprocess.run(
            ["ip", "netns", "exec", "tndclient", str(BUILD / "bin/tanada"), "pool",
             *map(str, words), "--key-file", str(self.keys)],
            capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip

    def place(self, space):
        return f"pool://{','.join(f'{address}:{PORT}' for address in self.addresses)}/{space}"

    def wait_until_whole(self):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            done = self.tanada("cluster", "status", self.place(""), "--json", "--timeout", 5)
            if done.returncode == 0:
                status = json.loads(done.stdout)
                shares = [server["primaries"] for server in status["servers"]]
                if status["missing"] == 0 and len(shares) == self.count and min(shares) > 0:
                    return
            time.sleep(0.1)
        sys.exit(f"bench: the cluster is never whole: {self.log()}")

    def log(self):
        return "".join((self.folder / f"{i}.log").read_text() for i in range(self.count))

    def bandwidths(self, size, rounds):
        """Bytes a second of a put and of a get."""
        seconds = max(0.01, (rounds - 1) * size * 8 / (LINK_BITS * self.count))
        done = self.tanada(
            "bench", self.place("bench"), "--sizes", size, "--seconds", seconds,
            "--timeout", LIMIT_S, "--json",
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"bench: {done.stderr} {self.log()}")
        (result,) = json.loads(done.stdout)["results"]
        return {verb: size / (result[verb]["p50_ns"] / 1e9) for verb in ("put", "get")}


def row(what, value, rival, bar):
    """`value` and the rival's in bytes a second; the ratio is held to the bar."""
    name, rival_value = rival
    ratio = float(f"{value / rival_value:.3g}")
    return {
        "what": what,
        "value": float(f"{value / 1e6:.4g}"),
        "unit": "MB/s",
        "rival": name,
        "rival_value": float(f"{rival_value / 1e6:.4g}"),
        "ratio": ratio,
        "bar": bar,
        "better": "higher",
        "met": ratio >= bar,
    }


def raw_bandwidth(rounds):
    sink = subprocess.Popen(
        ["ip", "netns", "exec", "tnds0", sys.executable, "-c", RAW_SINK],
        preexec_fn=etcd.end_with_parent,
    )
    try:
        time.sleep(1)
        source = ["ip", "netns", "exec", "tndclient", sys.executable, "-c", RAW_SOURCE]
        printed = run(*source, f"{SUBNET}.10", TCP_SIZE, rounds, timeout=LIMIT_S)
        return TCP_SIZE / float(printed)
    finally:
        sink.kill()
        sink.wait()


def measure(folder, setup, client_bits, options):
    """The bandwidths of one cluster; `raw`: also those of 64 MiB, and raw TCP's."""
    count, copies = setup
    with Network() as network, tempfile.TemporaryDirectory(dir=folder) as name:
        for i in range(count):
            network.add(f"tnds{i}", f"{SUBNET}.{10 + i}", LINK_BITS)
        network.add("tndclient", f"{SUBNET}.9", client_bits)
        member = etcd.Cluster(name, 1, False, BRIDGE_ADDRESS)
        member.start()
        try:
            with Cluster(pathlib.Path(name), member, count, copies, options.size) as cluster:
                figures = cluster.bandwidths(options.size, options.rounds)
                if setup == (1, 1):
                    figures["small"] = cluster.bandwidths(TCP_SIZE, options.rounds)
                    figures["raw"] = raw_bandwidth(options.rounds)
                return figures
        finally:
            member.end()


def rows_of(folder, options):
    link = LINK_BITS / 8 * PAYLOAD_SHARE
    size = f"{options.size >> 20} MiB"
    for count in (1, 2, 3):
        figures = measure(folder, (count, 1), None, options)
        servers = "1 server" if count == 1 else f"{count} servers"
        for verb in ("put", "get"):
            what = f"{verb} of {size}, 1 copy on {servers}"
            yield row(what, figures[verb], (f"{count} x 1 Gb/s", count * link), 0.9)
        if count == 1:
            raw = ("raw TCP", figures["raw"])
            for verb in ("put", "get"):
                what = f"{verb} of 64 MiB over TCP, 1 server"
                yield row(what, figures["small"][verb], raw, 0.9)
    figures = measure(folder, (3, 2), LINK_BITS, options)
    half = ("half of the client's 1 Gb/s", link / 2)
    yield row(f"put of {size}, 2 copies on 3 servers", figures["put"], half, 0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of the object")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    try:
        isolate()
    except NetworkError as error:
        print(f"bench: {error}", file=sys.stderr)
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        rows = []
        for each in rows_of(pathlib.Path(name), options):
            print_short(each)
            rows.append(each)
    if options.json:
        save(options.json, "pool_cluster_bandwidth", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
