"""A cluster of real servers and a real etcd, for tests."""

import hashlib
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request

from commands import BUILD, LIMIT_S, environment, pool, pool_json, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fixtures"))
import etcd  # noqa: E402

LEASE_S = 2
MIB = 1 << 20
NAMESPACES = [f"space{i}" for i in range(12)]  # in different partitions


class Server:
    def __init__(self, cluster, port, *options):
        self.cluster, self.port, self.options = cluster, port, options
        self.name = f"127.0.0.1:{port}"
        self.process = None

    def port_file(self):
        return self.cluster.folder / f"{self.port}.ports"

    def metric(self, name):
        """The value of a metric, with its labels as /metrics has them; 0 if it is not there."""
        _, web_port = self.port_file().read_text().split()
        with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(float(line.split()[1])) for line in lines if line.startswith(f"{name} "))

    def used_size(self):
        """The bytes of all objects of this server."""
        return self.metric("tanada_pool_used_bytes")

    def start(self):
        self.port_file().unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [
                BUILD / "bin/tanada-poold", "--port", str(self.port), "--size", self.cluster.size,
                "--segment-size", "2MiB", "--no-prefault", "--cluster", self.cluster.url,
                "--copies", str(self.cluster.copies), "--lease", f"{self.cluster.lease_s}s",
                "--web", "--port-file", self.port_file(), *self.options,
            ],
            env={**environment(), "TND_LOG": "info", "TND_PLUGIN_PATH": BUILD / "lib"},
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

    copies = 2
    size = "64MiB"  # of a server

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


def fill(cluster):
    for space in NAMESPACES:
        cluster.must_put(space, "first", f"{space} first")


def check(cluster, name="first"):
    for space in NAMESPACES:
        assert cluster.text(space, name) == f"{space} {name}"


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


def end_writers(writers):
    for writer in writers:
        writer.is_ending = True
    for writer in writers:
        writer.join(LIMIT_S)
        writer.check()


def wait_until_missed(cluster, server):
    """A server that is back before its lease has ended would not be missed yet."""
    wait_for(lambda: cluster.entry(server)["state"] != "up", "a server that is missed")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def random_file(folder, size, seed=1):
    path = folder / f"random{seed}"
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


def read_all(url):
    done = pool("cat", url, text=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def used_sizes(cluster):
    return [server.used_size() for server in cluster.servers]


def restart_all(cluster):
    for server in cluster.servers:
        server.kill()
    for server in cluster.servers:
        server.start()
    cluster.wait_until_whole()
