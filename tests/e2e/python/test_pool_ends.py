"""tanada.pool at ends: daemons that hang or are killed, connections that are closed,
garbage-collected, or made with another key.
"""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from package import content_of, raises
from pool_daemon import Daemon


def test_a_daemon_that_hangs(tanada, own_daemon):
    """A call ends at its timeout, and other threads run meanwhile."""
    with tanada.pool.connect(own_daemon.url("a"), timeout=0.5, shared_memory=False) as pool:
        pool.put("a", b"1")
        own_daemon.send(signal.SIGSTOP)
        counted, done = 0, threading.Event()

        def count():
            nonlocal counted
            while not done.is_set():
                counted += 1
                time.sleep(0.001)

        counter = threading.Thread(target=count)
        counter.start()
        start = time.monotonic()
        with raises(tanada, "ETIMEDOUT"):
            pool.stat("a")
        lasted = time.monotonic() - start
        done.set()
        counter.join()
        assert 0.4 < lasted < 10
        assert counted > 20  # with the GIL held it is 0 or 1
        own_daemon.send(signal.SIGCONT)


def test_a_daemon_that_is_killed(tanada, own_daemon):
    with tanada.pool.connect(own_daemon.url("a"), timeout=10) as pool:
        pool.put("a", b"1" * 100_000)
        opened = pool.open("a")
        own_daemon.stop(signal.SIGKILL)
        with raises(tanada, "TND_EPEER"):
            pool.stat("a")
        own_daemon.start()
        pool.put("b", b"2")  # it connects again
        assert pool.get("b") == b"2" and [entry.name for entry in pool.list()] == ["b"]
        with raises(tanada, "ESTALE"):
            opened.read(10)


@pytest.mark.parametrize("backing", ["file", "flash"])
def test_what_is_durable_is_there_again(tanada, tmp_path, backing):
    """The daemon is killed; durable commits and sets survive, uncommitted objects do not."""
    (tmp_path / "pool").mkdir()
    with Daemon(tmp_path, "--backing", f"{backing}:{tmp_path}/pool/memory", size="64MiB") as daemon:
        with tanada.pool.connect(daemon.url("a"), timeout=20) as pool:
            assert pool.connection().is_durable
            pool.put("a", content_of(100_000), durable=True, checksum="xxh3")
            with pool.create("b", set="step") as made:
                made.write(b"2")
                made.commit()
                pool.set_commit("step", 1, durable=True)
            unfinished = pool.create("c", 100)
            unfinished.write(b"3")
            daemon.stop(signal.SIGKILL)
            daemon.start()
        with tanada.pool.connect(daemon.url("a"), timeout=20) as pool:
            assert [entry.name for entry in pool.list()] == ["a", "b"]
            assert pool.get("a", verify=True) == content_of(100_000) and pool.get("b") == b"2"
            assert pool.stat("a").flags & tanada.pool.Flags.DURABLE


def test_keys(tanada, tmp_path):
    def key_file(name, line):
        path = tmp_path / name
        path.write_text(line + "\n")
        path.chmod(0o600)
        return path

    keys = {
        "rw": f"alice {'1a' * 32} rw runs",
        "ro": f"bob {'2b' * 32} ro runs",
        "wrong": f"alice {'3c' * 32} rw runs",
    }
    files = {name: key_file(name, line) for name, line in keys.items()}
    with Daemon(tmp_path, "--key-file", key_file("all", f"{keys['rw']}\n{keys['ro']}")) as daemon:
        with tanada.pool.connect(daemon.url("runs"), key_file=files["rw"]) as pool:
            pool.put("a", b"1")
        with tanada.pool.connect(daemon.url("runs"), key_file=files["ro"]) as pool:
            assert pool.get("a") == b"1" and not pool.connection().can_write
            with raises(tanada, "EACCES"):
                pool.put("a", b"2")
        for path, namespace in ((files["wrong"], "runs"), (None, "runs"), (files["rw"], "others")):
            with raises(tanada, "EACCES"):
                tanada.pool.connect(daemon.url(namespace), key_file=path)


def test_a_child_leaves_the_parents_connection_alone(tanada, pool):
    pool.put("a", b"1")
    child = os.fork()
    if child == 0:
        try:
            pool.get("a")
            os._exit(1)
        except tanada.Error as error:
            pool.close()
            os._exit(0 if error.name == "TND_ESTATE" else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.get("a") == b"1"


def test_who_cannot_be_reached(tanada, daemon):
    for wrong in (
        "pool://",
        "http://localhost/a",
        f"pool://{daemon.host}:{daemon.port}",
        "pool://localhost:99999999/a",
    ):
        with raises(tanada, "EINVAL"):
            tanada.pool.connect(wrong)
    with raises(tanada, "TND_EPEER"):
        tanada.pool.connect("pool://127.0.0.1:1/a", timeout=5)
    with raises(tanada, "ENOENT", "key file"):
        tanada.pool.connect(daemon.url("a"), key_file="/nonexistent/key")


def test_what_is_closed(tanada, daemon):
    pool = tanada.pool.connect(daemon.url("a"))
    pool.put("a", b"1")
    opened = pool.open("a")
    opened.close()
    opened.close()
    with raises(tanada, "TND_ESTATE", "object is closed"):
        opened.read()
    opened = pool.open("a")
    pool.close()
    pool.close()
    assert pool.closed and opened.closed
    for call in (
        pool.list,
        pool.statistics,
        pool.connection,
        lambda: pool.get("a"),
        opened.read,
        opened.info,
    ):
        with raises(tanada, "TND_ESTATE", "closed"):
            call()
    with pytest.warns(ResourceWarning, match="was not closed"):
        tanada.pool.connect(daemon.url("a"))
        gc.collect()


def test_forgotten_handles_are_closed(pool):
    """More than a connection may have."""
    pool.put("a", content_of(10_000))
    for _ in range(5000):
        pool.open("a").map()
    gc.collect()
    assert pool.get("a") == content_of(10_000)


def test_the_end_of_the_process_is_quiet(site, daemon):
    """With everything left open: no crash, and no output except the warning, which is off outside
    tests.
    """
    program = f"import tanada; p = tanada.pool.connect({daemon.url('a')!r}); p.put('a', b'1' * 9999); o = p.open('a'); m = o.map()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(site)},
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
