"""`tanada pool` at a terminal and under signals: progress, the live view, what remains after an
interruption.
"""

import errno
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from commands import LIMIT_S, TANADA, Daemon, environment, pool, pool_json, wait_for

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def space(daemon, request):
    url = daemon.url(request.node.originalname)
    yield url
    assert pool("rm", "-rf", url).returncode == 0


@pytest.fixture
def start():
    """Starts `tanada pool ...`; processes of a failed test are killed."""
    started = []

    def one(*words, variables=None, **streams):
        started.append(
            subprocess.Popen(
                [TANADA, "pool", *map(str, words)], env=environment(**(variables or {})), **streams
            )
        )
        return started[-1]

    yield one
    for each in started:
        each.kill()
        each.communicate(timeout=LIMIT_S)


class Terminal:
    """A terminal of 100 columns; what is written to it."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.text = ""

    def read(self, until, limit_s=LIMIT_S):
        deadline = time.monotonic() + limit_s
        while not until(self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self.ours], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.ours, 65536).decode()
                except OSError as error:
                    assert error.errno == errno.EIO  # no process has its other end any more

    def mode(self):
        return termios.tcgetattr(self.theirs)[3]

    def close(self):
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def large(tmp_path):
    """A daemon with an object of 400 MiB, runs/a."""
    daemon = Daemon(tmp_path, size="1GiB").start()
    try:
        big = tmp_path / "big"
        with open(big, "wb") as made:
            made.truncate(400 << 20)
        assert pool("cp", big, daemon.url("runs/a")).returncode == 0
        yield daemon
    finally:
        daemon.process.send_signal(signal.SIGCONT)  # a test stops it
        daemon.stop()


def slow_copy(start, folder, target, **streams):
    """Four writes of 1 MiB, with time between them to check the progress."""
    source = folder / "source"
    if not source.exists():
        os.mkfifo(source)
    copying = start("cp", source, target, stdout=subprocess.PIPE, **streams)
    with open(source, "wb", buffering=0) as feed:
        for _ in range(4):
            feed.write(os.urandom(1 << 20))
            time.sleep(0.15)
    output, errors = copying.communicate(timeout=LIMIT_S)
    assert output.startswith(b"1 copy, 4.0 MiB in ")
    return errors


def test_progress_is_for_terminals(start, space, terminal, tmp_path):
    slow_copy(start, tmp_path, f"{space}/a", stderr=terminal.theirs)
    terminal.read(lambda text: text.endswith("\r\x1b[K"))
    assert "source" in terminal.text and "MiB/s" in terminal.text and "\n" not in terminal.text
    assert slow_copy(start, tmp_path, f"{space}/a", stderr=subprocess.PIPE) == b"", (
        "none where nobody looks"
    )


def test_progress_tells_the_share_and_the_time_left(start, large, terminal, tmp_path):
    """An object whose size is known."""
    copying = start(
        "cp",
        large.url("runs/a"),
        tmp_path / "back",
        stderr=terminal.theirs,
        stdout=subprocess.DEVNULL,
        variables={"TND_POOL_SHARED_MEMORY": "0"},
    )
    terminal.read(lambda text: "left" in text)
    assert copying.wait(LIMIT_S) == 0
    assert " / 400.0 MiB" in terminal.text and " %  " in terminal.text and "[" in terminal.text


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_interrupted_put_leaves_nothing(start, space, tmp_path, number):
    before = pool_json("stat", space)["statistics"]
    source = tmp_path / "source"
    os.mkfifo(source)
    copying = start(
        "cp", source, f"{space}/a", stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    with open(source, "wb", buffering=0) as feed:
        feed.write(b"x" * 3_000_000)
        wait_for(
            lambda: pool_json("stat", space)["statistics"]["used"] > before["used"],
            "an object under way",
        )
        copying.send_signal(number)
        assert copying.wait(LIMIT_S) == -number
    assert pool_json("ls", space)["objects"] == []
    wait_for(
        lambda: pool_json("stat", space)["statistics"]["used"] == before["used"],
        "its memory is free again",
    )


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_interrupted_get_leaves_nothing(start, large, tmp_path, number):
    """The daemon is stopped in the middle, so that the copy is certainly not finished."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "back").write_text("old")
    copying = start(
        "cp",
        large.url("runs/a"),
        folder / "back",
        variables={"TND_POOL_SHARED_MEMORY": "0"},
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: len(list(folder.iterdir())) == 2, "a new file beside the old one")
    large.process.send_signal(signal.SIGSTOP)
    copying.send_signal(number)
    assert copying.wait(LIMIT_S) == -number
    large.process.send_signal(signal.SIGCONT)
    assert [each.name for each in folder.iterdir()] == ["back"] and (
        folder / "back"
    ).read_text() == "old"


def test_nohup_stays_nohup(start, space, tmp_path):
    source = tmp_path / "source"
    os.mkfifo(source)
    copying = start(
        "cp",
        source,
        f"{space}/a",
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    with open(source, "wb", buffering=0) as feed:
        feed.write(b"x")
        copying.send_signal(signal.SIGHUP)
        feed.write(b"y")
    assert copying.wait(LIMIT_S) == 0
    assert pool("cat", f"{space}/a").stdout == "xy"


def test_an_interrupted_bench_removes_its_object(start, space):
    bench = start("bench", space, "--seconds", "60", stdout=subprocess.DEVNULL)
    wait_for(lambda: pool_json("ls", space)["objects"], "the object of the benchmark")
    bench.send_signal(signal.SIGINT)
    assert bench.wait(LIMIT_S) == -signal.SIGINT
    assert pool_json("ls", space)["objects"] == []


def test_top_shows_what_happens(start, space, terminal):
    before = terminal.mode()
    top = start("top", space, "--period", "0.1", stdin=terminal.theirs, stdout=terminal.theirs)
    terminal.read(lambda text: "q: end" in text)
    assert not terminal.mode() & termios.ECHO
    assert (
        pool(
            "cp",
            "-",
            f"{space}/a",
            stdin="x" * 5_000_000,
            variables={"TND_POOL_SHARED_MEMORY": "0"},
        ).returncode
        == 0
    )
    terminal.read(lambda text: " owned, 1 object," in text)
    terminal.read(lambda text: "█" in text)
    os.write(terminal.ours, b"q")
    assert top.wait(LIMIT_S) == 0
    terminal.read(lambda text: text.endswith("\x1b[?25h\x1b[?1049l"))
    assert terminal.text.startswith("\x1b[?1049h\x1b[?25l")
    assert terminal.mode() == before
    frame = terminal.text.split("\x1b[H")[-1].split("\x1b[J")[0]
    assert max(len(line) for line in frame.replace("\x1b[K", "").splitlines()) <= 100


def test_an_interrupted_top_puts_the_terminal_back(start, space, terminal):
    before = terminal.mode()
    top = start("top", space, stdin=terminal.theirs, stdout=terminal.theirs)
    terminal.read(lambda text: "q: end" in text)
    top.send_signal(signal.SIGINT)
    assert top.wait(LIMIT_S) == -signal.SIGINT
    terminal.read(lambda text: text.endswith("\x1b[?25h\x1b[?1049l"))
    assert terminal.mode() == before


def test_top_outlives_a_daemon_that_is_away(start, terminal, tmp_path):
    daemon = Daemon(tmp_path).start()
    top = start(
        "top",
        daemon.url("runs"),
        "--period",
        "0.1",
        "--timeout",
        "1",
        stdin=terminal.theirs,
        stdout=terminal.theirs,
    )
    terminal.read(lambda text: "q: end" in text)
    daemon.stop()
    terminal.read(lambda text: "no reply: " in text)
    second = Daemon(tmp_path, port=daemon.port).start()
    try:
        seen = len(terminal.text)
        terminal.read(lambda text: "q: end" in text[seen:])
        os.write(terminal.ours, b"q")
        assert top.wait(LIMIT_S) == 0
    finally:
        second.stop()


def test_top_without_a_terminal(space):
    done = pool("top", space, "--json", "--period", "0.05", "--count", "3")
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(samples) == 3 and done.returncode == 0
    assert samples[2]["uptime_s"] > samples[0]["uptime_s"] and samples[0]["client_count"] == 1
    assert set(samples[0]["per_second"]) == {
        "written_size",
        "read_size",
        "commits",
        "opens",
        "evictions",
        "errors",
    }
    shown = pool("top", space, "--count", "1")
    assert shown.returncode == 0 and "\x1b" not in shown.stdout and "namespace" in shown.stdout


def test_output_that_nobody_takes_is_an_error(start, space):
    assert pool("cp", "-", f"{space}/a", stdin="x" * 1_000_000).returncode == 0
    with open("/dev/full", "wb") as full:
        done = start("cat", f"{space}/a", stdout=full, stderr=subprocess.PIPE)
        assert b"ENOSPC" in done.communicate(timeout=LIMIT_S)[1] and done.returncode == 1
        done = start("ls", space, stdout=full, stderr=subprocess.PIPE)
        done.communicate(timeout=LIMIT_S)
        assert done.returncode == 1
