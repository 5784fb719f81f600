"""bench_pool as a program: its report, rivals that fail, and that nothing is left of those it started."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from living import living

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev")) / "bin/bench_pool"
RIVALS = [
    "pool_local",
    "pool_tcp",
    "memcpy",
    "tcp",
    "memcached_unix",
    "memcached_tcp",
    "nfs",
    "mooncake",
    "mooncake_engine",
    "nixl",
    "redis_unix",
    "redis_tcp",
]
# Answers SET and GET as Redis does. A get gives back CHANGED bytes at the front.
REDIS = """#!/usr/bin/env python3
import socket, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
with socket.create_server(("127.0.0.1", port)) as listener:
    kept = b""
    while True:
        client = listener.accept()[0]
        stream = client.makefile("rwb")
        while line := stream.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int(stream.readline()[1:])
                words.append(stream.read(size + 2)[:-2])
            if words[0] == b"SET":
                kept = words[2]
                stream.write(b"+OK\\r\\n")
            else:
                stream.write(b"$%d\\r\\n" % len(kept) + b"\\0" * CHANGED + kept[CHANGED:] + b"\\r\\n")
            stream.flush()
"""


@pytest.fixture
def bench(tmp_path):
    """A function that starts the program with these rivals only, and stubs of servers before all others in PATH."""
    if not PROGRAM.exists():
        pytest.skip("benchmarks are not built")
    (tmp_path / "bin").mkdir()
    (tmp_path / "scratch").mkdir()

    def start(*rivals, rows="small", stub=None):
        if stub:
            path = tmp_path / "bin" / stub[0]
            path.write_text(stub[1])
            path.chmod(0o755)
        environment = {
            **os.environ,
            "TMPDIR": str(tmp_path / "scratch"),
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        }
        words = [
            PROGRAM,
            "--rows",
            rows,
            "--json",
            tmp_path / "report.json",
            "--without",
            ",".join(each for each in RIVALS if each not in rivals),
        ]
        return subprocess.Popen(
            words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    start.folder = tmp_path
    return start


def rows_of(bench, process):
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output
    return {
        row["what"]: row for row in json.loads((bench.folder / "report.json").read_text())["rows"]
    }


def assert_nothing_left(bench):
    end = time.monotonic() + 5
    while living(bench.folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert living(bench.folder) == []
    assert list((bench.folder / "scratch").iterdir()) == []


def test_rows_have_a_rival_and_a_ratio(bench):
    rows = rows_of(
        bench, bench("tcp", "redis_tcp", stub=("redis-server", REDIS.replace("CHANGED", "0")))
    )
    row = rows["4 KiB get p50, Redis, TCP"]
    assert (
        row["rival"] == "raw TCP"
        and row["rival_value"] > 0
        and row["ratio"] > 0
        and row["better"] == "lower"
    )
    assert rows["4 KiB get p50, raw TCP"]["rival"] is None
    assert_nothing_left(bench)


def test_a_rival_that_gives_back_other_bytes_is_left_out(bench):
    rows = rows_of(
        bench, bench("tcp", "redis_tcp", stub=("redis-server", REDIS.replace("CHANGED", "1")))
    )
    assert "Redis, TCP is left out: it gave back other bytes" in rows
    assert "4 KiB get p50, raw TCP" in rows and "4 KiB get p50, Redis, TCP" not in rows


def test_a_rival_that_ends_at_its_start_is_left_out_with_its_words(bench):
    stub = "#!/bin/sh\necho no memory for that >&2\nexit 1\n"
    rows = rows_of(bench, bench("tcp", "memcached_unix", stub=("memcached", stub)))
    (what,) = [each for each in rows if each.startswith("memcached, unix socket is left out")]
    assert "ended at its start; it said last: no memory for that" in what
    assert_nothing_left(bench)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_server_and_no_folder(bench, number):
    process = bench(
        "tcp", "redis_tcp", rows="sizes", stub=("redis-server", REDIS.replace("CHANGED", "0"))
    )
    end = time.monotonic() + 10
    while (
        not any(b"redis-server" in line for line in living(bench.folder)) and time.monotonic() < end
    ):
        time.sleep(0.05)
    assert any(b"redis-server" in line for line in living(bench.folder))
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == 1
    assert_nothing_left(bench)
