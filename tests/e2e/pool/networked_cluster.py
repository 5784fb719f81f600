"""Servers of a cluster in network namespaces, three etcd members, and the clients that load it."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/fixtures"))
import etcd  # noqa: E402
from network import BRIDGE_ADDRESS, SUBNET, run, within  # noqa: E402
from pool_daemon import BUILD  # noqa: E402

PORT = 7440
CLIENT = "tndclient"
SMALL_DISK = "224m"
SERVER_SIZE, LOG_SIZE = "96MiB", "160MiB"
STRIPE = "256KiB"
KEY = "faults 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f rw *\n"
STATUS_LIMIT_S = 10
POLL_S = 0.25
LOG_TAIL = 3000


class FaultError(RuntimeError):
    """An invariant does not hold. The message has what was seen."""


class Server:
    """A daemon in a namespace of its own. With `disk`, its log is in that file system."""

    def __init__(self, cluster, number, backing):
        self.cluster, self.number, self.backing = cluster, number, backing
        self.link = f"tnds{number}"
        self.address = f"{SUBNET}.{10 + number}"
        self.name = f"{self.address}:{PORT}"
        self.log_path = cluster.folder / f"server{number}.log"
        self.port_file = cluster.folder / f"server{number}.port"
        self.process = None

    def start(self):
        backing = [] if self.backing is None else ["--backing", f"flash:{self.backing}"]
        if backing:
            backing += ["--log-size", LOG_SIZE]
        options = self.cluster.options
        self.port_file.unlink(missing_ok=True)
        command = [
            *within(self.link), BUILD / "bin/tanada-poold", "--listen", self.address,
            "--port", PORT, "--size", SERVER_SIZE, "--segment-size", "2MiB", "--no-prefault",
            "--port-file", self.port_file, "--key-file", self.cluster.keys,
            "--cluster", self.cluster.url,
            "--copies", options.copies, "--lease", f"{options.lease}s", "--stripe", STRIPE,
            *backing,
        ]  # fmt: skip
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, "TND_LOG": "info"},
                stdout=log,
                stderr=log,
                preexec_fn=etcd.end_with_parent,
            )

    def end(self, number=signal.SIGKILL):
        """Ends the process, and waits for that."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(self.cluster.options.limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise FaultError(f"{self.name} does not end") from None
        finally:
            self.process = None

    def log_tail(self):
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return f"--- {self.name}\n{text[-LOG_TAIL:]}"

    def check_alive(self):
        if self.process is not None and self.process.poll() is not None:
            code = self.process.returncode
            self.process = None
            raise FaultError(f"{self.name} has ended by itself with {code}")

    def erase(self):
        """Its disk is empty again."""
        if self.backing is not None:
            for entry in self.backing.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()


class Load:
    """The program that the clients are in: see cluster_load.cc."""

    def __init__(self, cluster, options):
        command = [
            *within(CLIENT), BUILD / "bin/pool_cluster_load", "--url", cluster.location(),
            "--key-file", cluster.keys, "--seed", options.seed, "--pause", options.pause,
        ]  # fmt: skip
        if not options.memory_only:
            command.append("--durable")
        self.errors = cluster.folder / "load.log"
        with open(self.errors, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, "TND_LOG": "info"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=etcd.end_with_parent,
            )
        self.received = b""

    def ask(self, command, limit_s=60):
        """The answer to a command, a dictionary."""
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        deadline = time.monotonic() + limit_s
        output = self.process.stdout.fileno()
        while b"\n" not in self.received:
            rest_s = max(0, deadline - time.monotonic())
            if not select.select([output], [], [], rest_s)[0]:
                raise FaultError(f"the clients do not answer {command!r} in {limit_s} s")
            data = os.read(output, 1 << 16)
            if not data:
                raise FaultError(f"the clients have ended: {self.errors.read_text()[-LOG_TAIL:]}")
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        return json.loads(line)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Cluster:
    def __init__(self, folder, network, options):
        self.folder, self.network, self.options = folder, network, options
        self.keys = folder / "keys"
        self.keys.write_text(KEY)
        self.keys.chmod(0o600)
        self.etcd = etcd.Cluster(folder, 3, False, BRIDGE_ADDRESS)
        ports = self.etcd.client_ports
        hosts = ",".join(f"{BRIDGE_ADDRESS}:{port}" for port in ports)
        self.url = f"etcd://{hosts}/faults"
        self.servers = [
            Server(self, i, self.make_disk(i)) for i in range(options.servers)
        ]  # fmt: skip
        self.small_disk = self.servers[-1].backing

    def make_disk(self, number):
        """A folder for a log; the last server's is a small file system."""
        if self.options.memory_only:
            return None
        disk = self.folder / f"disk{number}"
        disk.mkdir()
        if number == self.options.servers - 1:
            run("mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", disk)
        log = disk / "log"
        log.mkdir()
        return log

    def __enter__(self):
        for server in self.servers:
            self.network.add(server.link, server.address)
        self.network.add(CLIENT, f"{SUBNET}.9")
        self.etcd.start()
        for server in self.servers:
            server.start()
        self.wait_until_whole()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            with contextlib.suppress(FaultError):
                server.end()
        self.etcd.end()
        if self.small_disk is not None:
            run("umount", "-l", self.small_disk.parent)

    def location(self):
        return f"pool://{','.join(server.name for server in self.servers)}/"

    def tanada(self, *words, limit_s=STATUS_LIMIT_S):
        command = [*within(CLIENT), BUILD / "bin/tanada", "pool", *words, "--key-file", self.keys]
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=6 * limit_s,
            check=False,
        )

    def status(self):
        """What the cluster knows of itself; None: no server answers."""
        words = ("cluster", "status", self.location(), "--json", "--timeout", STATUS_LIMIT_S)
        done = self.tanada(*words)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def is_whole(self):
        # Until the lease of its last run has ended, a server that was started again is not in the
        # cluster, and is not missed either.
        status = self.status()
        if status is None or not all(server.port_file.exists() for server in self.servers):
            return False
        if status["lost"] > 0:
            raise FaultError(f"{status['lost']} partitions are lost")
        shares = {server["name"]: server for server in status["servers"]}
        running = [shares.get(server.name) for server in self.servers]
        is_complete = status["missing"] == 0 and status["offline"] == 0
        return is_complete and all(
            entry and entry["state"] == "up" and entry["primaries"] > 0 and entry["joining"] == 0
            for entry in running
        )

    def check_alive(self):
        for server in self.servers:
            server.check_alive()

    def wait_until_whole(self):
        """How many seconds it took."""
        begin_s = time.monotonic()
        # Twice, since a server may not have seen the last map yet.
        count = 0
        while count < 2:
            count = count + 1 if self.is_whole() else 0
            self.check_alive()
            if time.monotonic() > begin_s + self.options.limit:
                raise FaultError(f"not whole in {self.options.limit} s: {self.status()}")
            time.sleep(POLL_S)
        return time.monotonic() - begin_s

    def pause(self, seconds):
        """While a fault lasts. Servers that run must go on to run."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.check_alive()
            time.sleep(min(POLL_S, max(0, end_s - time.monotonic())))

    def log_tails(self):
        return "\n".join(server.log_tail() for server in self.servers)
