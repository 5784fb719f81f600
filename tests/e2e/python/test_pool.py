"""tanada.pool on a real daemon: objects, versions, sets, requests."""

import gc
import threading
import time

import pytest
from package import content_of, needed, raises


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 3_000_001])
def test_what_is_put_is_what_is_got(pool, size):
    content = content_of(size)
    pool.put("a", content)
    assert pool.get("a") == content
    target = bytearray(size + 3)
    assert pool.get_into("a", target) == size and target[:size] == content
    with pool.open("a") as opened:
        assert opened.size == size and opened.read() == content
        assert (
            opened.read(7, 2) == content[2:9]
            and opened.read(5, size) == b""
            and opened.read(5, size + 9) == b""
        )
        assert (
            opened.read_into(target, 1) == max(size - 1, 0)
            and target[: max(size - 1, 0)] == content[1:]
        )


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
    assert pool.list_level() == (["b/"], [pool.list("a")[0], pool.list("b")[0], pool.list("c")[0]])
    assert pool.list_level("b/1", "0") == (["b/10"], [])
    with pytest.raises(ValueError, match="delimiter"):
        pool.list_level("b", "")
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
    assert (info.checksum_kind, info.checksum) == (
        tanada.pool.Checksum.CRC32C,
        0xE3069283,
    )  # RFC 3720's check value
    assert pool.get("a", verify=True) == b"123456789"
    pool.put("a", b"123456789", checksum="crc32c", expected=0xE3069283, verify=True)
    with pool.create("b", 9) as made:
        made.write(b"12345678!")
        with raises(tanada, "TND_ECORRUPT"):
            made.commit(checksum="crc32c", expected=0xE3069283, verify=True)
        made.write(b"123456789")
        made.commit(checksum="crc32c", expected=0xE3069283, verify=True)
    pool.put("c", b"123456789", checksum="xxh3")
    assert (
        pool.stat("c").checksum_kind is tanada.pool.Checksum.XXH3 and pool.stat("c").checksum >> 32
    )
    with pytest.raises(ValueError, match="none of none, crc32c, xxh3"):
        pool.put("a", b"", checksum="md5")


def test_durable_where_nothing_is_kept(tanada, pool):
    assert not pool.connection().is_durable
    with raises(tanada, "EOPNOTSUPP"):
        pool.put("a", b"1", durable=True)
    assert pool.list() == []


def test_a_set_is_published_at_once(tanada, daemon, namespace, pool):
    with tanada.pool.connect(daemon.url(namespace)) as other:
        ranks = [
            (pool if rank % 2 else other).create(f"rank{rank}", 100, set="step 10")
            for rank in range(4)
        ]
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


@pytest.mark.usefixtures("one_server")
def test_the_connection_tells_its_path(tanada, daemon, namespace, pool):
    connection = pool.connection()
    assert (
        connection.can_write
        and connection.path is tanada.pool.Path.SHARED_MEMORY
        and connection.reason == ""
    )
    with tanada.pool.connect(daemon.url(namespace), shared_memory=False) as staged:
        content = content_of(500_000)
        staged.put("a", content)
        assert staged.get("a") == content and pool.get("a") == content
        connection = staged.connection()
        assert (
            connection.path in (tanada.pool.Path.UNIX, tanada.pool.Path.TCP) and connection.reason
        )
        assert connection.sent_size >= 500_000 and connection.received_size >= 500_000
        traffic = staged.traffic()
        assert (
            traffic.last_path is connection.path
            and not traffic.last_is_staged
            and traffic.maps == 0
        )
        assert traffic.by_path[connection.path] == tanada.pool.PathTraffic(1, 500_000, 1, 500_000)
        with staged.open("a") as opened, raises(tanada, "EOPNOTSUPP"):
            opened.map()
    by_mapping = pool.traffic().by_path[tanada.pool.Path.SHARED_MEMORY]
    assert by_mapping == tanada.pool.PathTraffic(0, 0, 1, 500_000)
    now = pool.statistics()
    assert (
        now.space_object_count == 1
        and now.space_used >= 500_000
        and now.capacity >= 256 << 20
        and now.commits >= 1
    )


def file_mapped_at(addr):
    with open("/proc/self/maps") as lines:
        for line in lines:
            words = line.split()
            first, end = (int(part, 16) for part in words[0].split("-"))
            if first <= addr < end:
                return " ".join(words[5:])
    return None


@pytest.mark.usefixtures("one_server")
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
    assert (
        not view.flags.writeable and not imported.flags.writeable and memoryview(mapping).readonly
    )
    del mapping, imported
    opened.close()
    pool.close()
    gc.collect()
    assert view.tobytes() == content  # it keeps the memory that it views
    del view
    gc.collect()
    assert "memfd" not in (file_mapped_at(addr) or "")


def test_requests(tanada, pool):
    Path = tanada.pool.Path
    content = [content_of(1000 * index, index) for index in range(40)]
    requests = [pool.post_put(f"{index:02}", bytearray(each)) for index, each in enumerate(content)]
    gc.collect()  # only the requests hold the sources
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
    assert (
        targets == content
        and requests[41].size == 1000
        and requests[41].version == requests[1].version > 0
    )
    with raises(tanada, "ENOENT"):
        requests[-2].check()
    with raises(tanada, "ERANGE"):
        requests[-1].check()


@pytest.mark.usefixtures("one_server")
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
