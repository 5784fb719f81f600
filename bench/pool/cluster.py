#!/usr/bin/env python3
"""Commits, losses of servers and reads of a cluster of three servers on loopback, beside one
server, etcd and Redis with one replica.

usage: cluster.py [--seconds S] [--losses N] [--lease S] [--disk FOLDER] [--json FILE]

Needs etcd, and redis-server for its rows. Everything is on one machine, so all servers share its
processors and its disk.
"""

import argparse
import base64
import http.client
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tests/fixtures")]

import etcd  # noqa: E402
from machine import save  # noqa: E402
from pool_daemon import BUILD, Daemon  # noqa: E402
from results import print_short  # noqa: E402

SIZE = 4096
FILL_COUNT = 64  # objects of 8 MiB in namespaces of their own
FILL_PUT_SIZE = 1 << 20
SPACES = [f"space{i}" for i in range(6)]
LIMIT_S = 120


def pool(*words, stdin=None):
    return subprocess.run(
        [BUILD / "bin/tanada", "pool", *map(str, words)],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=LIMIT_S,
    )


def must(*words, stdin=None):
    done = pool(*words, stdin=stdin)
    if done.returncode != 0:
        sys.exit(f"bench: {words}: {done.stderr}")
    return done.stdout


class Servers:
    """Three servers of a cluster."""

    def __init__(self, folder, url, lease_s, is_durable):
        self.url = url
        self.servers = []
        for port in etcd.free_ports(3):
            home = folder / str(port)
            home.mkdir()
            backing = ["--backing", f"flash:{home}/flash"] if is_durable else []
            self.servers.append(
                Daemon(
                    home, "--cluster", url, "--copies", "2", "--lease", f"{lease_s}s", *backing,
                    size="1GiB", port=port,
                )
            )  # fmt: skip

    def __enter__(self):
        for server in self.servers:
            server.start()
        self.wait_until_whole()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()

    def place(self, space, name=""):
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"pool://{hosts}/{space}" + (f"/{name}" if name else "")

    def status(self):
        return json.loads(must("cluster", "status", self.place(""), "--json"))

    def wait_until_whole(self):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            done = pool("cluster", "status", self.place(""), "--json")
            if done.returncode == 0:
                status = json.loads(done.stdout)
                shares = [server["primaries"] for server in status["servers"]]
                is_complete = len(shares) == len(self.servers) and min(shares) > 0
                if status["missing"] == 0 and is_complete:
                    return
            time.sleep(0.05)
        sys.exit("bench: the cluster is never whole")


def median_us(place, options, is_durable):
    seconds = options.seconds if is_durable else min(options.seconds, 1)  # the pool must not fill
    words = ["bench", place, "--sizes", SIZE, "--seconds", seconds, "--json"]
    report = json.loads(must(*words, *(["--durable"] if is_durable else [])))
    return report["results"][0]["put"]["p50_ns"] / 1e3


def repeated_us(call, seconds):
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def etcd_us(port, options):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    value = base64.b64encode(bytes(SIZE)).decode()
    body = json.dumps({"key": base64.b64encode(b"bench").decode(), "value": value})

    def put():
        connection.request("POST", "/v3/kv/put", body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit("bench: etcd refuses a put")

    return repeated_us(put, options.seconds)


def redis_us(folder, options):
    """SET and WAIT 1, with appendfsync always in both; None: Redis is not installed."""
    if shutil.which("redis-server") is None:
        return None
    ports = etcd.free_ports(2)
    servers = []
    for i, port in enumerate(ports):
        home = folder / f"redis{i}"
        home.mkdir()
        words = ["redis-server", "--port", port, "--dir", home, "--appendonly", "yes"]
        words += ["--appendfsync", "always", "--save", ""]
        words += ["--replicaof", f"127.0.0.1 {ports[0]}"] if i else []
        servers.append(
            subprocess.Popen(
                [str(word) for word in words],
                stdout=subprocess.DEVNULL,
                preexec_fn=etcd.end_with_parent,
            )
        )
    try:
        return repeated_redis_us(ports[0], options)
    finally:
        for server in servers:
            server.kill()
            server.wait()


def repeated_redis_us(port, options):
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = connection.makefile("rb")
    head = b"*3\r\n$3\r\nSET\r\n$5\r\nbench\r\n$%d\r\n" % SIZE
    request = head + bytes(SIZE) + b"\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$4\r\n5000\r\n"

    def put():
        connection.sendall(request)
        return lines.readline() == b"+OK\r\n" and lines.readline() == b":1\r\n"

    while not put():
        if time.monotonic() > deadline:
            sys.exit("bench: the replica of Redis does not follow")
    return repeated_us(put, options.seconds)


def lose_a_server(servers, number, call, is_stopped=False):
    """Kill or stop a server during a `call` for every namespace. The slowest call's seconds."""
    victim = servers.servers[number % len(servers.servers)]
    slowest = [0.0] * len(SPACES)
    is_ending = threading.Event()

    def run(i):
        while not is_ending.is_set():
            begin = time.monotonic()
            call(SPACES[i])
            slowest[i] = max(slowest[i], time.monotonic() - begin)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(SPACES))]
    for thread in threads:
        thread.start()
    time.sleep(1)
    if is_stopped:
        victim.process.terminate()
    else:
        victim.process.kill()
    victim.process.wait()
    # All copies are there again once another server has taken over.
    deadline = time.monotonic() + LIMIT_S
    while servers.status()["missing"] > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    is_ending.set()
    for thread in threads:
        thread.join()
    victim.start()
    servers.wait_until_whole()
    return max(slowest)


def fill_rows(folder, member, options):
    """Puts while a third server gets its copies."""
    url = f"etcd://127.0.0.1:{member.client_ports[0]}/filled"
    home = folder / "filled"
    home.mkdir()
    servers = Servers(home, url, options.lease, False)
    late = servers.servers.pop()
    source = home / "source"
    source.write_bytes(bytes(8 << 20))
    with servers:
        for i in range(FILL_COUNT):
            must("cp", "-q", source, servers.place(f"fill{i}", "object"))
        words = ["bench", servers.place("space0"), "--sizes", FILL_PUT_SIZE]
        words += ["--seconds", options.seconds, "--json"]

        def put_rate():
            return json.loads(must(*words))["results"][0]["put"]["bytes_per_second"]

        alone = put_rate()
        late.start()
        deadline = time.monotonic() + LIMIT_S
        while not any(server["joining"] for server in servers.status()["servers"]):
            if time.monotonic() > deadline:
                sys.exit("bench: the third server is not filled")
        filled = put_rate()
        is_under_way = servers.status()["missing"] > 0 or any(
            server["joining"] for server in servers.status()["servers"]
        )
        late.process.kill()
        late.process.wait()
    if not is_under_way:
        print("bench: the server was filled before the puts ended", file=sys.stderr)
    rival = ("before", alone / 1e6)
    yield row("puts while a server is filled", "MB/s", filled / 1e6, rival, 0.7, "higher")


def row(what, unit, value, rival, bar, better="lower"):
    """`rival`: its name and its value; the ratio is held to the bar."""
    name, rival_value = rival
    ratio = None if rival_value is None else float(f"{value / rival_value:.4g}")
    return {
        "what": what,
        "value": float(f"{value:.4g}"),
        "unit": unit,
        "rival": name,
        "rival_value": "missing" if rival_value is None else float(f"{rival_value:.4g}"),
        "ratio": ratio,
        "bar": bar,
        "better": better,
        "met": None
        if ratio is None or bar is None
        else (ratio <= bar if better == "lower" else ratio >= bar),
    }


def commit_rows(folder, member, options):
    (folder / "one").mkdir()
    flash = ["--backing", f"flash:{folder}/one/flash"]
    with Daemon(folder / "one", *flash, size="1GiB") as one:
        alone = {
            durable: median_us(one.url("space0"), options, durable) for durable in (True, False)
        }
    url = f"etcd://127.0.0.1:{member.client_ports[0]}/durable"
    with Servers(folder, url, options.lease, True) as servers:
        place = servers.place("space0")
        cluster = {durable: median_us(place, options, durable) for durable in (True, False)}
    what = "durable commit of 4 KiB, 2 copies on 3 servers"
    yield row(what, "us", cluster[True], ("one server", alone[True]), 2.5)
    etcd_put_us = etcd_us(member.client_ports[0], options)
    yield row(f"{what}, and etcd", "us", cluster[True], ("one member", etcd_put_us), None)
    redis = redis_us(folder, options)
    yield row(f"{what}, and Redis", "us", cluster[True], ("one replica and WAIT", redis), None)
    what = "commit of 4 KiB, 2 copies on 3 servers"
    yield row(what, "us", cluster[False], ("one server", alone[False]), None)


def loss_rows(folder, member, options):
    url = f"etcd://127.0.0.1:{member.client_ports[0]}/memory"
    with Servers(folder, url, options.lease, False) as servers:
        for space in SPACES:
            must("cp", "-q", "-", servers.place(space, "object"), stdin="bytes")

        def put(space):
            must("cp", "-q", "-", servers.place(space, "object"), stdin="bytes")

        def put_again(space):
            # The reply of a put that is under way is lost.
            while pool("cp", "-q", "-", servers.place(space, "object"), stdin="bytes").returncode:
                pass

        def get(space):
            must("cat", servers.place(space, "object"))

        commits = [lose_a_server(servers, i, put) for i in range(options.losses)]
        stops = [lose_a_server(servers, i, put_again, True) for i in range(options.losses)]
        reads = [lose_a_server(servers, i, get) for i in range(options.losses)]
    limit = ("the lease and 1 s", options.lease + 1.0)
    median = statistics.median
    yield row("the slowest commit while a server is lost, median", "s", median(commits), limit, 1.0)
    limit = ("1 s", 1.0)
    yield row(
        "the slowest commit while a server is stopped, median", "s", median(stops), limit, 1.0
    )
    yield row("the slowest read while a server is lost, median", "s", median(reads), limit, 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--losses", type=int, default=5)
    parser.add_argument("--lease", type=int, default=5)
    parser.add_argument("--disk", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.disk) as name:
        folder = pathlib.Path(name)
        member = etcd.Cluster(folder, 1, False)
        member.start()
        try:
            rows = [
                *commit_rows(folder, member, options),
                *loss_rows(folder, member, options),
                *fill_rows(folder, member, options),
            ]
        finally:
            member.end()
    for each in rows:
        print_short(each)
    if options.json:
        save(options.json, "pool_cluster", rows)


if __name__ == "__main__":
    main()
