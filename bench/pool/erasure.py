#!/usr/bin/env python3
"""Puts and gets of a large object with an erasure code, beside one with two copies of the same
cluster, and the time until a lost server's fragments are rebuilt.

usage: erasure.py [--size SIZE] [--code K+M] [--rounds N] [--json FILE]

All servers and the client are on one machine, over loopback: with few idle processors, the figures
are those of the processors.
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
from pool_daemon import BUILD  # noqa: E402
from results import print_short  # noqa: E402

LIMIT_S = 600
LEASE_S = 2


class Servers:
    """A cluster with two copies, and one server more than a group has fragments."""

    def __init__(self, folder, url, options):
        self.data_count, self.parity_count = map(int, options.code.split("+"))
        self.ports = etcd.free_ports(self.data_count + self.parity_count + 1)
        memory = 2 * options.size + (512 << 20)
        self.processes = [
            subprocess.Popen(
                [
                    BUILD / "bin/tanada-poold", "--port", str(port), "--size", str(memory),
                    "--no-prefault", "--cluster", url, "--copies", "2", "--lease", f"{LEASE_S}s",
                ],
                stdout=open(folder / f"{port}.log", "w"),
                stderr=subprocess.STDOUT,
                preexec_fn=etcd.end_with_parent,
            )
            for port in self.ports
        ]  # fmt: skip
        self.wait_until(lambda state: len(state["servers"]) == len(self.ports))

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def place(self, space):
        return f"pool://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{space}"

    def tanada(self, *words):
        done = subprocess.run(
            [BUILD / "bin/tanada", "pool", *map(str, words)],
            capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"bench: {words}: {done.stderr}")
        return done.stdout

    def status(self):
        return json.loads(self.tanada("cluster", "status", self.place(""), "--json"))

    def wait_until(self, condition):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            done = subprocess.run(
                [BUILD / "bin/tanada", "pool", "cluster", "status", self.place(""), "--json"],
                capture_output=True, text=True, timeout=LIMIT_S,
            )  # fmt: skip
            if done.returncode == 0:
                state = json.loads(done.stdout)
                if state["missing"] == 0 and condition(state):
                    return
            time.sleep(0.05)
        sys.exit("bench: the cluster never gets there")

    def bandwidths(self, space, options):
        """Bytes a second of a put and of a get."""
        done = self.tanada(
            "bench", self.place(space), "--sizes", options.size, "--seconds", options.rounds,
            "--timeout", LIMIT_S, "--json",
        )  # fmt: skip
        (result,) = json.loads(done)["results"]
        return {verb: options.size / (result[verb]["p50_ns"] / 1e9) for verb in ("put", "get")}

    def rebuild_s(self, folder, options):
        """Seconds from the loss of a server until its fragments are on others, and their bytes."""
        source = folder / "source"
        source.write_bytes(bytes(options.size))
        self.tanada("cp", "-q", source, self.place("coded/object"))

        def counts(state):
            return {server["name"]: server["fragments"] for server in state["servers"]}

        self.wait_until(lambda state: sum(counts(state).values()) > 0)
        time.sleep(6)  # until all servers have reported what they have
        total = sum(counts(self.status()).values())
        lost = f"127.0.0.1:{self.ports[-1]}"
        lost_count = counts(self.status())[lost]
        begin_s = time.monotonic()
        self.processes[-1].kill()
        self.wait_until(
            lambda state: sum(n for name, n in counts(state).items() if name != lost) == total
        )
        share = (self.data_count + self.parity_count) / self.data_count
        return time.monotonic() - begin_s, options.size * share * lost_count / total


def row(what, unit, value, rival, bar, better="higher"):
    name, rival_value = rival
    ratio = float(f"{value / rival_value:.3g}")
    return {
        "what": what,
        "value": float(f"{value:.4g}"),
        "unit": unit,
        "rival": name,
        "rival_value": float(f"{rival_value:.4g}"),
        "ratio": ratio,
        "bar": bar,
        "better": better,
        "met": None if bar is None else (ratio >= bar if better == "higher" else ratio <= bar),
    }


def rows_of(folder, options):
    member = etcd.Cluster(folder, 1, False)
    member.start()
    url = f"etcd://127.0.0.1:{member.client_ports[0]}/erasure"
    size = f"{options.size >> 20} MiB"
    servers = Servers(folder, url, options)
    try:
        servers.tanada("cluster", "set", servers.place(""), "coded", "--erasure", options.code)
        count = len(servers.ports)
        copies = servers.bandwidths("copies", options)
        coded = servers.bandwidths("coded", options)
        for verb, bar in (("put", 1.0), ("get", 0.9)):
            what = f"{verb} of {size} with {options.code} on {count} servers"
            rival = ("2 copies", copies[verb] / 1e6)
            yield row(what, "MB/s", coded[verb] / 1e6, rival, bar)
        took_s, lost_size = servers.rebuild_s(folder, options)
        what = f"a lost server's {lost_size / 2**20:.0f} MiB are rebuilt with {options.code}"
        rival = ("the lease, a search, and 50 MB/s", LEASE_S + 5 + lost_size / 50e6)
        yield row(what, "s", took_s, rival, 1.0, "lower")
    finally:
        servers.end()
        member.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of the object")
    parser.add_argument("--code", default="4+2")
    parser.add_argument("--rounds", type=float, default=3, help="seconds of each measurement")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for measured in rows_of(pathlib.Path(name), options):
            print_short(measured)
            rows.append(measured)
    if options.json:
        save(options.json, "pool_erasure", rows)


if __name__ == "__main__":
    main()
