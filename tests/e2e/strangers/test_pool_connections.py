"""A memory pool and those who connect to it: hosts that vanish, silent and rude peers, other users, and what operators see."""

import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools/mpi"))
import link  # noqa: E402

LIMIT_S = 60
MAGIC, HELLO = 0x31444E54, 1
PROTOCOL_VERSION = 5

HOLDER = r"""
#include <stdio.h>
#include <tanada/pool.h>
#include <unistd.h>

int main(int count, char **words) {
  static char bytes[32 << 20];
  tnd_pool *pool = NULL;
  tnd_pool_object *object = NULL;
  if (count != 2 || tnd_pool_connect(words[1], NULL, &pool) != TND_OK) return 1;
  if (tnd_pool_create(pool, "result", sizeof bytes, 0, NULL, &object) != TND_OK) return 2;
  if (tnd_pool_write(object, 0, bytes, sizeof bytes, TND_POOL_MEMORY_HOST) != TND_OK) return 3;
  puts("written");
  fflush(stdout);
  pause();
  return 0;
}
"""


class Pool:
    """A tanada-poold of the prefix; `inside` are words that run a command elsewhere."""

    def __init__(self, installed, folder, *options, inside=()):
        self.installed, self.folder, self.inside = installed, folder, list(inside)
        self.log, ports = folder / "poold.log", folder / "port"
        command = [
            *self.inside,
            installed.bin / "tanada-poold",
            "--port",
            "0",
            "--port-file",
            ports,
            *options,
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=installed.environment(),
            )
        wait_for(lambda: ports.exists() or self.process.poll() is not None, "the daemon starts")
        assert ports.exists(), self.log.read_text()
        self.ports = [int(word) for word in ports.read_text().split()]
        self.port = self.ports[0]

    def stat(self, url, *options):
        done = self.installed.run(
            *self.inside, self.installed.bin / "tanada", "pool", "stat", "--json", *options, url
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["statistics"]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@contextlib.contextmanager
def pool(*arguments, **options):
    running = Pool(*arguments, **options)
    try:
        yield running
    finally:
        running.end()


def wait_for(condition, event, limit_s=LIMIT_S):
    limit = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < limit, f"it did not come to pass in {limit_s} s that {event}"
        time.sleep(0.05)


def text(words):
    return struct.pack("<H", len(words)) + words


def hello(key=b"", space=b"runs"):
    """A frame as any program can send it."""
    body = struct.pack("<I", PROTOCOL_VERSION) + text(space) + text(key) + bytes(32)
    return struct.pack("<IHHIiQQ", MAGIC, HELLO, 0, len(body), 0, 1, 0) + body


def test_a_host_that_vanishes_gives_its_memory_back(installed, tmp_path):
    missing = link.missing(("ip", "unshare"))
    if missing:
        pytest.skip(missing)
    program = installed.compile_c(tmp_path, HOLDER)
    keys = tmp_path / "keys"
    installed.must(
        installed.bin / "tanada", "pool", "key", "new", "--namespaces", "runs", "--output", keys
    )
    assert keys.stat().st_mode & 0o777 == 0o600
    with link.Link(None) as wire:
        first, second = (["ip", "netns", "exec", name] for name in wire.names)
        options = [
            "--listen",
            wire.hosts[0],
            "--key-file",
            keys,
            "--size",
            "128MiB",
            "--lost-after",
            "4s",
        ]
        with pool(installed, tmp_path, *options, inside=first) as running:
            url = f"pool://{wire.hosts[0]}:{running.port}/runs"
            used = lambda: running.stat(url, "--key-file", keys)["used"]  # noqa: E731
            client = subprocess.Popen(
                [*second, program, url],
                stdout=subprocess.PIPE,
                text=True,
                env=installed.environment(TND_POOL_KEY_FILE=str(keys)),
            )
            try:
                assert client.stdout.readline() == "written\n"
                assert used() >= 32 << 20
                link.call("ip", "-n", wire.names[1], "link", "set", "tnd0", "down")
                wait_for(lambda: used() == 0, "the memory of the vanished host is free again", 40)
            finally:
                client.kill()
                client.wait()
                client.stdout.close()


def test_nobody_without_a_key_writes_or_floods_the_log(installed, tmp_path):
    keys = tmp_path / "keys"
    installed.must(
        installed.bin / "tanada", "pool", "key", "new", "--namespaces", "runs", "--output", keys
    )
    with pool(installed, tmp_path, "--size", "16MiB", "--key-file", keys) as running:
        forged = b"x\n00:00:00.000 tanada error: forged\x1b[2J"
        proof = struct.pack("<IHHIiQQ", MAGIC, 3, 0, 32, 0, 2, 0) + bytes(32)
        for _ in range(500):
            with socket.create_connection(("127.0.0.1", running.port), LIMIT_S) as peer:
                peer.sendall(hello(forged) + proof)
                while peer.recv(4096):
                    pass
        lines = running.log.read_text()
        assert "is refused" in lines and "authentication failed" in lines
        assert (
            "\n00:00:00.000" not in lines and "\x1b" not in lines and "\\x0A00:00:00.000" in lines
        )
        assert len(lines) < 20_000


def test_a_refused_handshake_leaves_a_line(installed, tmp_path):
    tanada = installed.bin / "tanada"
    files = [tmp_path / name for name in ("daemon", "client")]
    for file in files:
        installed.must(
            tanada, "pool", "key", "new", "--namespaces", "runs", "--id", "alice", "--output", file
        )
    with pool(installed, tmp_path, "--size", "16MiB", "--key-file", files[0]) as running:
        url = f"pool://127.0.0.1:{running.port}/runs"
        wrong = installed.run(tanada, "pool", "ls", "--key-file", files[1], url)
        assert wrong.returncode == 1 and 'authentication failed with key "alice"' in wrong.stderr
        none = installed.run(tanada, "pool", "ls", url)
        assert none.returncode == 1 and "this pool requires a key" in none.stderr
        wait_for(
            lambda: running.log.read_text().count('namespace "runs"') >= 2, "both are in the log"
        )
        assert 'key "alice"' in running.log.read_text()


def test_silent_connections_shut_nobody_out(installed, tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(5000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with pool(installed, tmp_path, "--size", "16MiB") as running, contextlib.ExitStack() as crowd:
        for _ in range(count):
            crowd.enter_context(socket.create_connection(("127.0.0.1", running.port), LIMIT_S))
        assert running.stat(f"pool://127.0.0.1:{running.port}/runs")["client_count"] >= 1
        assert len(running.log.read_text()) < 20_000


def test_a_full_pool_says_so(installed, tmp_path):
    with pool(installed, tmp_path, "--size", "16MiB", "--clients", "1") as running:
        url = f"pool://127.0.0.1:{running.port}/runs"
        holder = subprocess.Popen(
            [installed.bin / "tanada", "pool", "top", "--period", "1", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env=installed.environment(TND_POOL_SHARED_MEMORY="off"),
        )
        try:
            assert holder.stdout.readline()
            refused = installed.run(installed.bin / "tanada", "pool", "ls", url)
            assert refused.returncode == 1 and "all 1 connections" in refused.stderr, refused.stderr
        finally:
            holder.kill()
            holder.wait()
            holder.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_without_keys_other_users_are_refused_unless_the_pool_is_open(installed, tmp_path):
    asked = """import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60) as peer:
    peer.sendall(bytes.fromhex(sys.argv[2]))
    print(peer.recv(4096))"""

    def answer(port):
        command = ["/usr/bin/python3", "-c", asked, str(port), hello().hex()]
        return subprocess.run(
            command,
            user=65534,
            group=65534,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        ).stdout

    if not pathlib.Path("/usr/bin/python3").exists():
        pytest.skip("no python3 that another user may run")
    with pool(installed, tmp_path, "--size", "16MiB") as running:
        assert "--open for all users" in answer(running.port)
        assert "for this user and root" in running.log.read_text()
        installed.must(
            installed.bin / "tanada", "pool", "ls", f"pool://127.0.0.1:{running.port}/runs"
        )
    with pool(installed, tmp_path, "--size", "16MiB", "--open") as running:
        assert "--open" not in answer(running.port)


def test_metrics_count_what_failed_by_status(installed, tmp_path):
    with pool(installed, tmp_path, "--size", "16MiB", "--web-port", "0") as running:
        url = f"pool://127.0.0.1:{running.port}/runs"
        for _ in range(3):
            assert (
                installed.run(installed.bin / "tanada", "pool", "stat", f"{url}/none").returncode
                == 1
            )
        large = tmp_path / "large"
        large.write_bytes(bytes(80 << 20))
        assert (
            installed.run(installed.bin / "tanada", "pool", "cp", large, f"{url}/large").returncode
            == 1
        )
        with urllib.request.urlopen(
            f"http://127.0.0.1:{running.ports[1]}/metrics", timeout=LIMIT_S
        ) as answer:
            lines = answer.read().decode().splitlines()
        assert 'tanada_pool_errors_total{status="ENOENT"} 3' in lines
        assert 'tanada_pool_errors_total{status="ENOSPC"} 1' in lines
        assert running.stat(url)["errors"] == 4


def test_a_list_has_a_line_for_each_object(installed, tmp_path):
    with pool(installed, tmp_path, "--size", "16MiB") as running:
        url = f"pool://127.0.0.1:{running.port}/runs"
        file = tmp_path / "file"
        file.write_bytes(b"x")
        installed.must(installed.bin / "tanada", "pool", "cp", file, f"{url}/a\nb\x1b[2J")
        listed = installed.must(installed.bin / "tanada", "pool", "ls", url)
        assert len(listed.splitlines()) == 1 and "a\\x0Ab\\x1B[2J" in listed
        assert (
            json.loads(installed.must(installed.bin / "tanada", "pool", "ls", "--json", url))[
                "objects"
            ][0]["name"]
            == "a\nb\x1b[2J"
        )


def test_a_benchmark_leaves_room_in_a_small_namespace(installed, tmp_path):
    with pool(installed, tmp_path, "--size", "256MiB", "--quota", "runs=8MiB") as running:
        url = f"pool://127.0.0.1:{running.port}/runs"
        bench = [installed.bin / "tanada", "pool", "bench", "--seconds", "0.1"]
        done = installed.run(*bench, url)
        assert done.returncode == 0 and "skipping objects of 64.0 MiB" in done.stderr, (
            done.stdout + done.stderr
        )
        assert "1.0 MiB  put" in done.stdout and "64.0 MiB  put" not in done.stdout
        nothing = installed.run(*bench, "--sizes", "64MiB", url)
        assert nothing.returncode == 1 and "no size fits" in nothing.stderr


@pytest.mark.parametrize(
    "options, words",
    [
        (["--listen", "nohost.invalid"], "nohost.invalid: "),
        (["--listen", "0.0.0.0"], "--key-file"),
        (["--key-file", "/none/keys"], "/none/keys"),
    ],
)
def test_a_start_that_fails_is_said_once_and_names_what_was_wrong(installed, options, words):
    done = installed.run(installed.bin / "tanada-poold", "--port", "0", "--size", "4MiB", *options)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and words in done.stderr, done.stderr
    assert "tanada error: tanada-poold failed to start: " in done.stderr, done.stderr
    quiet = installed.run(
        installed.bin / "tanada-poold",
        "--port",
        "0",
        "--size",
        "4MiB",
        *options,
        env=installed.environment(TND_LOG="off"),
    )
    assert len(quiet.stderr.splitlines()) == 1 and words in quiet.stderr, quiet.stderr


def test_a_pool_prints_the_size_that_it_has(installed, tmp_path):
    with pool(installed, tmp_path, "--size", "12") as running:
        assert ", 64MiB, backing dram" in running.log.read_text()


@pytest.mark.parametrize("value", ["0s", "500ms", "none"])
def test_a_time_after_which_every_client_would_be_lost_is_refused(installed, value):
    done = installed.run(
        installed.bin / "tanada-poold",
        "--port",
        0,
        "--size",
        "64MiB",
        "--lost-after",
        value,
        timeout=60,
    )
    assert (
        done.returncode == 1 and "lost_after is" in done.stderr and "give 1s to 1h" in done.stderr
    ), done.stderr
