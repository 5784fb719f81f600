"""tanada.pool on a real daemon: objects, versions, sets, requests, and what happens when the daemon goes."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from package import needed, raises
from pool_daemon import Daemon


def content_of(size, seed=1):
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 3_000_001])
def test_what_is_put_is_what_is_got(pool, size):
    content = content_of(size)
    pool.put("a", content)
    assert pool.get("a") == content
    target = bytearray(size + 3)
    assert pool.get_into("a", target) == size and target[:size] == content
    with pool.open("a") as opened:
        assert opened.size == size and opened.read() == content
        assert opened.read(7, 2) == content[2:9] and opened.read(5, size) == b"" and opened.read(5, size + 9) == b""
        assert opened.read_into(target, 1) == max(size - 1, 0) and target[:max(size - 1, 0)] == content[1:]


def test_nobody_sees_an_object_before_its_commit(tanada, pool):
    with pool.create("a", "1KiB") as made:
        made.write(b"middle", 500)
        assert made.info().version == 0 and made.size == 1024
        with raises(tanada, "ENOENT"):
            pool.stat("a")
        version = made.commit()
        assert made.read(8, 499) == b"\0middle\0"  # a reader's now
        with raises(tanada, "EBADF"):
            made.write(b"late")
    assert pool.stat("a").version == version > 0 and pool.stat("a").size == 1024
    with pytest.raises(KeyError), pool.create("b", 10) as made:
        made.write(b"lost")
        raise KeyError
    assert [entry.name for entry in pool.list()] == ["a"]


def test_an_object_grows_behind_its_end(pool):
    with pool.create("a") as made:
        for index in range(100):
            made.write(bytes([index]) * 5000, index * 5000)
        made.commit()
    assert pool.get("a") == b"".join(bytes([index]) * 5000 for index in range(100))
    with pool.create("a", keep=True) as made:
        assert made.size == 500_000
        made.write(b"end", made.size)
        made.commit()
    assert pool.get("a")[499_999:] == b"cend"


def test_a_version_that_is_open_stays(tanada, pool):
    pool.put("a", b"first")
    first = pool.stat("a").version
    with pool.open("a") as opened:
        pool.put("a", b"second")
        with pool.open("a") as newest:
            assert newest.read() == b"second" and newest.info().version > first
        pool.remove("a")
        assert opened.read() == b"first" and opened.info().version == first
    with raises(tanada, "ENOENT"):
        pool.open("a", first)


def test_names(tanada, pool):
    for name in ("b/2", "a", "b/10", "c", "b"):
        pool.put(name, name.encode())
    assert [entry.name for entry in pool.list()] == ["a", "b", "b/10", "b/2", "c"]
    assert [entry.name for entry in pool.list("b/")] == ["b/10", "b/2"]
    assert [entry.name for entry in pool.list("b", count_max=2)] == ["b", "b/10"]
    pool.rename("a", "c")
    assert pool.get("c") == b"a"
    with raises(tanada, "EEXIST"):
        pool.rename("c", "b", exclusive=True)
    with raises(tanada, "EEXIST"):
        pool.put("c", b"", exclusive=True)
    with raises(tanada, "ENOENT"):
        pool.remove("a")
    pool.put("füße/\N{SNOWMAN}", b"1")
    pool.put(b"\xff", b"2")
    assert pool.list("f")[0].name == "füße/\N{SNOWMAN}" and pool.get("\udcff") == b"2"
    with pytest.raises(ValueError, match="zero inside"):
        pool.put("a\0b", b"")
    with raises(tanada, "EINVAL"):
        pool.put("", b"")
    with raises(tanada, "ENAMETOOLONG"):
        pool.put("x" * (tanada.pool.NAME_SIZE_MAX + 1), b"")


def test_flags_and_times(tanada, pool):
    before = time.time()
    pool.put("a", b"1", evictable=True)
    assert pool.stat("a").flags == tanada.pool.Flags.EVICTABLE
    pool.set_flags("a", evictable=True, pinned=True)
    assert pool.stat("a").flags == tanada.pool.Flags.EVICTABLE | tanada.pool.Flags.PINNED
    assert before - 1 < pool.stat("a").created.timestamp() < time.time() + 1


def test_checksums(tanada, pool):
    pool.put("a", b"123456789", checksum="crc32c")
    info = pool.stat("a")
    assert (info.checksum_kind, info.checksum) == (tanada.pool.Checksum.CRC32C, 0xE3069283)  # RFC 3720's check value
    assert pool.get("a", verify=True) == b"123456789"
    pool.put("a", b"123456789", checksum="crc32c", expected=0xE3069283, verify=True)
    with pool.create("b", 9) as made:
        made.write(b"12345678!")
        with raises(tanada, "TND_ECORRUPT"):
            made.commit(checksum="crc32c", expected=0xE3069283, verify=True)
        made.write(b"123456789")
        made.commit(checksum="crc32c", expected=0xE3069283, verify=True)
    pool.put("c", b"123456789", checksum="xxh3")
    assert pool.stat("c").checksum_kind is tanada.pool.Checksum.XXH3 and pool.stat("c").checksum >> 32
    with pytest.raises(ValueError, match="none of none, crc32c, xxh3"):
        pool.put("a", b"", checksum="md5")


def test_durable_where_nothing_is_kept(tanada, pool):
    assert not pool.connection().is_durable
    with raises(tanada, "EOPNOTSUPP"):
        pool.put("a", b"1", durable=True)
    assert pool.list() == []


def test_a_set_is_published_at_once(tanada, daemon, namespace, pool):
    with tanada.pool.connect(daemon.url(namespace)) as other:
        ranks = [(pool if rank % 2 else other).create(f"rank{rank}", 100, set="step 10") for rank in range(4)]
        for rank, made in enumerate(ranks):
            made.write(bytes([rank]) * 100)
            assert made.commit() == 0
            assert pool.list() == []
            if rank < 3:
                with raises(tanada, "EAGAIN"):
                    pool.set_commit("step 10", 4)
        pool.set_commit("step 10", 4)
        assert [entry.name for entry in other.list()] == ["rank0", "rank1", "rank2", "rank3"]
        for made in ranks:
            made.close()
    assert pool.get("rank3") == b"\3" * 100


def test_the_connection_tells_its_path(tanada, daemon, namespace, pool):
    connection = pool.connection()
    assert connection.can_write and connection.path is tanada.pool.Path.SHARED_MEMORY and connection.reason == ""
    with tanada.pool.connect(daemon.url(namespace), shared_memory=False) as staged:
        content = content_of(500_000)
        staged.put("a", content)
        assert staged.get("a") == content and pool.get("a") == content
        connection = staged.connection()
        assert connection.path in (tanada.pool.Path.UNIX, tanada.pool.Path.TCP) and connection.reason
        assert connection.sent_size >= 500_000 and connection.received_size >= 500_000
        traffic = staged.traffic()
        assert traffic.last_path is connection.path and not traffic.last_is_staged and traffic.maps == 0
        assert traffic.by_path[connection.path] == tanada.pool.PathTraffic(1, 500_000, 1, 500_000)
        with staged.open("a") as opened, raises(tanada, "EOPNOTSUPP"):
            opened.map()
    by_mapping = pool.traffic().by_path[tanada.pool.Path.SHARED_MEMORY]
    assert by_mapping == tanada.pool.PathTraffic(0, 0, 1, 500_000)
    now = pool.statistics()
    assert now.space_object_count == 1 and now.space_used >= 500_000 and now.capacity >= 256 << 20 and now.commits >= 1


def file_mapped_at(addr):
    with open("/proc/self/maps") as lines:
        for line in lines:
            words = line.split()
            first, end = (int(part, 16) for part in words[0].split("-"))
            if first <= addr < end:
                return " ".join(words[5:])
    return None


def test_a_mapping_is_the_pools_memory(pool):
    numpy = needed("numpy")
    content = content_of(300_000)
    pool.put("a", content)
    opened = pool.open("a")
    mapping = opened.map()
    assert len(mapping) == 300_000 and bytes(memoryview(mapping)[10:20]) == content[10:20]
    view = numpy.frombuffer(mapping, "u1")
    imported = numpy.from_dlpack(mapping)
    addr = view.ctypes.data
    assert imported.ctypes.data == addr and "memfd" in file_mapped_at(addr)  # nothing was copied
    assert not view.flags.writeable and not imported.flags.writeable and memoryview(mapping).readonly
    del mapping, imported
    opened.close()
    pool.close()
    gc.collect()
    assert view.tobytes() == content  # it keeps what it looks at
    del view
    gc.collect()
    assert "memfd" not in (file_mapped_at(addr) or "")


def test_requests(tanada, pool):
    Path = tanada.pool.Path
    content = [content_of(1000 * index, index) for index in range(40)]
    requests = [pool.post_put(f"{index:02}", bytearray(each)) for index, each in enumerate(content)]
    gc.collect()  # nobody but the requests holds the sources
    targets = [bytearray(len(each)) for each in content]
    requests += [pool.post_get(f"{index:02}", target) for index, target in enumerate(targets)]
    requests.append(pool.post_get("absent", bytearray(10)))
    requests.append(pool.post_get("39", bytearray(10)))
    done = []
    while len(done) < len(requests):
        some = pool.poll(20)
        assert some
        done += some
    assert done == requests and pool.poll(0) == [] == pool.poll(20)
    for request in requests[:-2]:
        request.check()
        assert request.path is (Path.UNIX if request.size else Path.NONE)
    assert requests[-1].path is requests[-2].path is Path.NONE
    assert targets == content and requests[41].size == 1000 and requests[41].version == requests[1].version > 0
    with raises(tanada, "ENOENT"):
        requests[-2].check()
    with raises(tanada, "ERANGE"):
        requests[-1].check()


def test_requests_of_an_object(tanada, pool):
    Path = tanada.pool.Path
    with pool.create("a", 3000) as made:
        posted = [made.post_write(bytes([index]) * 1000, 1000 * index) for index in range(3)]
        posted.append(made.post_commit(checksum="crc32c"))
        with pytest.raises(RuntimeError, match="not done"):
            [request for request in posted if not request.done][-1].check()
        while not posted[-1].done:
            assert pool.poll(20)
        for request in posted:
            request.check()
        assert posted[-1].version == pool.stat("a").version
        assert [request.path for request in posted] == 3 * [Path.SHARED_MEMORY] + [Path.NONE]
        target = bytearray(1500)
        short = made.post_read(target, 2000)
        assert pool.poll(20) == [short] and short.size == 1000 and target[:1000] == b"\2" * 1000


def test_a_connection_that_closes_under_requests(tanada, daemon, namespace):
    pool = tanada.pool.connect(daemon.url(namespace))
    request = pool.post_put("a", b"1" * 100_000)
    pool.close()
    assert request.done
    with raises(tanada, "TND_ESTATE"):
        request.check()


def test_threads_share_a_connection(pool):
    def work(number):
        for index in range(50):
            content = content_of(1000 + 100 * index, number)
            pool.put(f"{number}", content)
            if pool.get(f"{number}") != content:
                wrong.append(number)
    wrong = []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == [] and len(pool.list()) == 6


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
    """The daemon is killed; durable commits and the sets among them survive, what was never published does not."""
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
    keys = {"rw": f"alice {'1a' * 32} rw runs", "ro": f"bob {'2b' * 32} ro runs", "wrong": f"alice {'3c' * 32} rw runs"}
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
    for wrong in ("pool://", "http://localhost/a", f"pool://{daemon.host}:{daemon.port}", "pool://localhost:99999999/a"):
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
    for call in (pool.list, pool.statistics, pool.connection, lambda: pool.get("a"), opened.read, opened.info):
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
    """With everything left open: no crash, no complaint but the warning, which is off outside tests."""
    program = f"import tanada; p = tanada.pool.connect({daemon.url('a')!r}); p.put('a', b'1' * 9999); o = p.open('a'); m = o.map()"
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(site)}, text=True,
                          capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
