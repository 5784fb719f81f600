"""The file system tanada:// on a real daemon: fsspec's own calls, and programs that use only
fsspec.
"""

import contextlib
import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from package import needed
from pool_daemon import Daemon

needed("fsspec")


@pytest.fixture
def fs(tanada, daemon):
    import fsspec

    fsspec.process_entries()  # it may have been imported before the package was on the path
    return fsspec.filesystem("tanada", host=daemon.host, port=daemon.port, timeout=20)


@pytest.fixture
def root(namespace, pool):
    """A namespace, as a path of the file system."""
    return namespace


def test_the_entry_point(site, daemon):
    """In a process that has imported neither the package nor fsspec."""
    program = f"import fsspec; print(fsspec.open({daemon.url('a/b', 'tanada')!r}).fs.__class__.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(site)},
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "tanada.fsspec\n", "")


def test_urls(fs, daemon):
    import fsspec

    for url, host, port, path in [
        ("tanada://node1/runs/a/b", "node1", 7440, "runs/a/b"),
        ("tanada://node1:81/runs/a/", "node1", 81, "runs/a"),
        ("tanada://[fd00:0:0:0:0:0:0:1]/runs/a?b#c", "[fd00:0:0:0:0:0:0:1]", 7440, "runs/a?b#c"),
        ("tanada://[fd00:0:0:0:0:0:0:1]:81/runs", "[fd00:0:0:0:0:0:0:1]", 81, "runs"),
        ("tanada://node1,node2/runs/a", "node1,node2", 7440, "runs/a"),
        ("tanada://node1:81,node2/runs/a", "node1:81,node2", 7440, "runs/a"),
        ("tanada://node1:81,node2:82/runs/a", "node1:81,node2", 82, "runs/a"),
    ]:
        made, stripped = fsspec.url_to_fs(url)
        assert (made.host, made.port, stripped) == (host, port, path)
    made, path = fsspec.url_to_fs(daemon.url("a/b", "tanada"), timeout=20)
    assert made is fs and fs.unstrip_protocol(path) == daemon.url("a/b", "tanada")
    with pytest.raises(ValueError, match="no namespace"):
        fs.ls("tanada://node1")


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 3_000_001])
def test_a_file_is_written_and_read(fs, root, size):
    content = os.urandom(size)
    with fs.open(f"{root}/a/file", "wb") as file:
        for offset in range(0, size, 70_001):
            file.write(content[offset : offset + 70_001])
        assert not fs.exists(f"{root}/a/file")
    with fs.open(f"{root}/a/file") as file:
        assert file.size == size and file.read() == content
        assert (
            file.seek(size // 2) == size // 2
            and file.read(100) == content[size // 2 : size // 2 + 100]
        )
        target = bytearray(size)
        file.seek(0)
        assert file.readinto(target) == size and target == content
    assert fs.cat_file(f"{root}/a/file") == content
    for start, end in (
        (0, 10),
        (5, None),
        (None, 7),
        (-9, None),
        (-9, -2),
        (7, 3),
        (size, size + 9),
    ):
        assert fs.cat_file(f"{root}/a/file", start=start, end=end) == content[start:end]
    assert fs.cat_ranges([f"{root}/a/file"] * 2, [0, 1], [2, 3]) == [content[:2], content[1:3]]
    assert fs.info(f"{root}/a/file")["size"] == fs.size(f"{root}/a/file") == fs.du(root) == size


def test_a_writer_seeks_and_appends(fs, root):
    with fs.open(f"{root}/a", "wb") as file:
        file.write(b"0123456789")
        file.seek(2)
        file.write(b"ab")
        assert file.seek(0, os.SEEK_END) == 10 and file.tell() == 10
    with fs.open(f"{root}/a", "ab") as file:
        file.write(b"end")
    assert fs.cat(f"{root}/a") == b"01ab456789end"
    with pytest.raises(FileExistsError):
        fs.open(f"{root}/a", "xb")
    with pytest.raises(ValueError, match="none of rb, wb, ab, xb"):
        fs.open(f"{root}/a", "a+b")


def test_a_file_is_updated_as_a_whole(fs, root):
    fs.pipe(f"{root}/a", b"0123456789")
    with fs.open(f"{root}/a", "r+b") as file, fs.open(f"{root}/a") as reader:
        assert file.read(4) == b"0123" and file.tell() == 4 and file.mode == "r+b"
        file.write(b"ab")
        assert file.read() == b"6789"
        file.seek(0)
        assert file.read() == b"0123ab6789"
        assert file.truncate(8) == 8
        file.seek(0, os.SEEK_END)
        file.write(b"!")
        assert fs.cat(f"{root}/a") == b"0123456789"
        file.flush()
        assert reader.read() == b"0123456789"
    assert fs.cat(f"{root}/a") == b"0123ab67!"
    with fs.open(f"{root}/a", "r+") as file:
        file.write("text")
    assert fs.cat(f"{root}/a") == b"textab67!"
    with fs.open(f"{root}/a", "w+b") as file:
        file.write(b"new")
        file.seek(1)
        assert file.read() == b"ew"
        file.truncate(5)
    assert fs.cat(f"{root}/a") == b"new\0\0"
    with pytest.raises(FileNotFoundError):
        fs.open(f"{root}/absent", "r+b")
    with pytest.raises(ValueError, match="compressed"):
        fs.open(f"{root}/a", "r+b", compression="gzip")


def test_an_update_belongs_to_its_transaction(fs, root):
    fs.pipe(f"{root}/a", b"before")
    with fs.transaction:
        with fs.open(f"{root}/a", "r+b") as file:
            file.write(b"x")
        assert fs.cat(f"{root}/a") == b"before"
    assert fs.cat(f"{root}/a") == b"xefore"
    with pytest.raises(KeyError), fs.transaction:
        with fs.open(f"{root}/a", "r+b") as file:
            file.write(b"y")
        raise KeyError
    assert fs.cat(f"{root}/a") == b"xefore"


def test_a_reader_stays_with_its_version(fs, root):
    fs.pipe(f"{root}/a", b"first")
    with fs.open(f"{root}/a", block_size=2) as file:
        assert file.read(1) == b"f"
        fs.pipe(f"{root}/a", b"later")
        assert file.read() == b"irst"
    assert fs.cat(f"{root}/a") == b"later"
    assert abs(fs.modified(f"{root}/a").timestamp() - time.time()) < 60 and fs.created(
        f"{root}/a"
    ) == fs.modified(f"{root}/a")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "mode, options",
    [
        ("wb", {}),
        ("w", {}),
        ("ab", {}),
        ("w+b", {}),
        ("wb", {"compression": "gzip"}),
        ("wt", {"compression": "gzip", "encoding": "utf-8"}),
    ],
)
def test_an_exception_leaves_what_was_there(fs, root, mode, options):
    fs.pipe(f"{root}/a", b"before")
    text = "x" * 3_000_000
    content = text.encode() if "b" in mode else text
    with pytest.raises(KeyError), fs.open(f"{root}/a", mode, **options) as file:
        file.write(content)
        raise KeyError
    assert fs.cat(f"{root}/a") == b"before"
    with fs.open(f"{root}/b", mode, **options) as file:
        file.write(content)
    with fs.open(f"{root}/b", "rb" if "b" in mode else "r", **options) as file:
        assert file.read() == content


def test_a_file_that_is_forgotten(fs, root):
    file = fs.open(f"{root}/a", "wb")
    file.write(b"1")
    with pytest.warns(ResourceWarning, match="was not closed, so it is not published"):
        del file
        gc.collect()
    assert not fs.exists(f"{root}/a")


def test_folders(fs, root):
    for name in ("a", "b/1", "b/2", "b/c/3", "bb"):
        fs.pipe(f"{root}/{name}", name.encode())
    paths = [f"{root}/{name}" for name in ("a", "b", "bb")]
    assert fs.ls(root, detail=False) == paths
    assert [record["type"] for record in fs.ls(root + "/", detail=True)] == [
        "file",
        "directory",
        "file",
    ]
    assert fs.ls(f"{root}/a", detail=False) == [f"{root}/a"]
    assert fs.find(root) == [f"{root}/{name}" for name in ("a", "b/1", "b/2", "b/c/3", "bb")]
    assert fs.find(root, maxdepth=1) == [f"{root}/a", f"{root}/bb"]
    assert fs.find(root, maxdepth=2, withdirs=True) == [
        root,
        *(f"{root}/{name}" for name in ("a", "b", "b/1", "b/2", "b/c", "bb")),
    ]
    assert fs.find(f"{root}/b/1") == [f"{root}/b/1"] and fs.find(f"{root}/none") == []
    assert list(fs.walk(root)) == [
        (root, ["b"], ["a", "bb"]),
        (f"{root}/b", ["c"], ["1", "2"]),
        (f"{root}/b/c", [], ["3"]),
    ]
    assert fs.glob(f"{root}/b/*") == [f"{root}/b/1", f"{root}/b/2", f"{root}/b/c"]
    assert fs.isdir(f"{root}/b") and fs.isfile(f"{root}/b/1") and not fs.exists(f"{root}/b/none")
    for missing in (f"{root}/none", f"{root}/b/none", f"{root}/a/none"):
        for call in (fs.ls, fs.info, fs.cat, fs.rm, fs.open, fs.created):
            with pytest.raises(FileNotFoundError):
                call(missing)
    with pytest.raises(IsADirectoryError):
        fs.created(f"{root}/b")
    fs.makedirs(f"{root}/d/e", exist_ok=True)  # nothing to do
    fs.touch(f"{root}/d/e/f")
    assert fs.cat(f"{root}/d/e/f") == b""
    with pytest.raises(NotImplementedError):
        fs.touch(f"{root}/d/e/f", truncate=False)


def test_moving_copying_removing(fs, root):
    for name in ("a", "b/1", "b/2"):
        fs.pipe(f"{root}/{name}", name.encode())
    version = fs.info(f"{root}/a")["version"]
    fs.mv(f"{root}/a", f"{root}/A")
    assert fs.info(f"{root}/A")["version"] == version  # renamed, not copied
    fs.mv(f"{root}/A", f"{root}/b/")
    with pytest.raises(IsADirectoryError):
        fs.mv(f"{root}/b", f"{root}/B")
    fs.mv(f"{root}/b", f"{root}/B", recursive=True)
    fs.cp(f"{root}/B", f"{root}/copy", recursive=True)
    fs.cp(f"{root}/B/1", f"{root}/one")
    assert fs.find(root) == [
        f"{root}/{name}" for name in ("B/1", "B/2", "B/A", "copy/1", "copy/2", "copy/A", "one")
    ]
    assert fs.cat(f"{root}/copy/A") == b"a" and fs.cat(f"{root}/one") == b"b/1"
    fs.mv(f"{root}/one", f"{root}-other/one")  # to another namespace: a copy
    assert fs.cat(f"{root}-other/one") == b"b/1" and not fs.exists(f"{root}/one")
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{root}/B")
    fs.rm(f"{root}/B", recursive=True)
    fs.rm([f"{root}/copy/1", f"{root}/copy/A*"])
    assert fs.find(root) == [f"{root}/copy/2"]
    fs.rm([root, f"{root}-other"], recursive=True)
    assert fs.find(root) == [] == fs.ls(root)


@pytest.mark.usefixtures("one_server")
def test_a_transaction_is_one_set(fs, root):
    with fs.transaction:
        for index in range(4):
            with fs.open(f"{root}/{index}", "wb") as file:
                file.write(b"first")
        fs.pipe(f"{root}/0", b"second")
        with pytest.raises(KeyError), fs.open(f"{root}/dropped", "wb") as file:
            raise KeyError
        assert fs.find(root) == []
    assert len(fs.find(root)) == 4 and fs.cat(f"{root}/0") == b"second"
    versions = [fs.info(f"{root}/{index}")["version"] for index in range(4)]
    assert max(versions) - min(versions) == 3
    with pytest.raises(KeyError), fs.transaction:
        fs.pipe(f"{root}/1", b"lost")
        fs.pipe(f"{root}/new", b"lost")
        raise KeyError
    assert fs.cat(f"{root}/1") == b"first" and not fs.exists(f"{root}/new")
    file = fs.open(f"{root}/new", "wb", autocommit=False)
    file.write(b"1")
    file.close()
    assert not fs.exists(f"{root}/new")
    file.commit()
    assert fs.cat(f"{root}/new") == b"1"


def test_readers_see_one_version_or_the_next(fs, root):
    """A writer replaces a file repeatedly; readers must never see a missing or partial file."""
    size, wrong, done = 200_000, [], threading.Event()
    fs.pipe(f"{root}/a", b"a" * size)

    def read():
        while not done.is_set():
            content = fs.cat(f"{root}/a")
            if len(content) != size or content != content[:1] * size:
                wrong.append(content[:20])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for index in range(100):
        with fs.open(f"{root}/a", "wb", block_size=30_000) as file:
            for _ in range(4):
                file.write(bytes([97 + index % 26]) * (size // 4))
    done.set()
    for reader in readers:
        reader.join(60)
    assert wrong == []


def test_a_thread_has_a_connection_that_ends_with_it(tanada, fs, root, pool):
    def clients():
        deadline = time.monotonic() + 10
        while (count := pool.statistics().client_count) != before and time.monotonic() < deadline:
            time.sleep(0.02)
        return count

    fs.pipe(f"{root}/a", b"1")
    before = pool.statistics().client_count
    seen, files = [], []

    def work():
        files.append(fs.open(f"{root}/a"))
        seen.append(pool.statistics().client_count)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert seen == [before + 1]
    assert files[0].read() == b"1"  # open files continue
    files.clear()
    gc.collect()
    assert clients() == before


def read_in_another_process(pickled, path, answer):
    answer.put(pickle.loads(pickled).cat(path))


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_it_goes_to_other_processes(fs, root, site, monkeypatch, way):
    fs.pipe(f"{root}/a", b"1234")
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.path.dirname(__file__)}")
    context = multiprocessing.get_context(way)
    answer = context.Queue()
    process = context.Process(
        target=read_in_another_process, args=(pickle.dumps(fs), f"{root}/a", answer)
    )
    process.start()
    assert answer.get(timeout=60) == b"1234"
    process.join(60)
    assert process.exitcode == 0 and fs.cat(f"{root}/a") == b"1234"
    assert pickle.loads(pickle.dumps(fs)) is fs


def test_a_pool_that_is_not_there(tanada):
    import fsspec

    fs = fsspec.filesystem("tanada", host="127.0.0.1", port=1, timeout=5)
    for call in (fs.exists, fs.isdir, fs.isfile, fs.cat, fs.ls):
        with pytest.raises(tanada.Error) as caught:  # not "there is no such file"
            call("a/b")
        assert caught.value.name == "TND_EPEER"


def test_checksums_and_durability(tanada, daemon, root):
    import fsspec

    checked = fsspec.filesystem("tanada", host=daemon.host, port=daemon.port, checksum="crc32c")
    checked.pipe(f"{root}/a", b"123456789")
    with checked.open(f"{root}/b", "wb") as file:
        file.write(b"123456789")
    for name in "ab":
        assert (
            checked.info(f"{root}/{name}")["checksum"] == 0xE3069283
            and checked.cat(f"{root}/{name}") == b"123456789"
        )
    durable = fsspec.filesystem("tanada", host=daemon.host, port=daemon.port, durable=True)
    with (
        pytest.raises(OSError, match=f"{root}/c: this pool is not durable"),
        durable.open(f"{root}/c", "wb") as file,
    ):
        file.write(b"1")  # this pool has no durable backing
    assert not durable.exists(f"{root}/c")


def test_the_atomic_close_is_held_to(site, daemon, root, tmp_path):
    """If the end of a `with` always commits, the check above must fail."""
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    source = broken / "tanada/_fsspec_files.py"
    planted = source.read_text().replace(
        "        if kind is None:\n            self.close()",
        "        if True:\n            self.close()",
    )
    assert planted != source.read_text()
    source.write_text(planted)
    program = f"""
import fsspec
fs, path = fsspec.url_to_fs({daemon.url(root + "/a", "tanada")!r})
fs.pipe(path, b"before")
try:
    with fs.open(path, "wb") as file:
        file.write(b"after")
        raise KeyError
except KeyError:
    print(fs.cat(path))
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(folder)},
            text=True,
            capture_output=True,
            timeout=60,
        ).stdout
        for folder in (site, broken)
    ]
    assert outputs == ["b'before'\n", "b'after'\n"]


def test_a_folder_with_a_name_that_leads_out_is_copied_without_it(fs, root, pool, tmp_path):
    for name in ("run/a", "run/deep/b", "run/..", "run/../escaped", "run/deep/../../../escaped"):
        pool.put(name, name.encode())
    with pytest.warns(RuntimeWarning, match="leads out of the target folder") as warned:
        fs.get(f"{root}/run", str(tmp_path / "copy"), recursive=True)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"copy/a", "copy/deep/b"}
    assert len([each for each in warned if "leads out" in str(each.message)]) >= 3
    assert fs.cat(f"{root}/run/..") == b"run/.."
    with pytest.raises(ValueError):
        fs.get(f"{root}/run/..", str(tmp_path) + "/")


@pytest.mark.parametrize("protocol", ["blockcache", "filecache", "simplecache"])
def test_caches_of_fsspec_lie_over_it(fs, daemon, root, tmp_path, protocol):
    import fsspec

    content = bytes(range(256)) * 4000
    fs.pipe(f"{root}/cached", content)
    url = f"{protocol}::tanada://{daemon.host}:{daemon.port}/{root}/cached"
    for _ in range(2):
        with fsspec.open(
            url, "rb", tanada={"timeout": 20}, **{protocol: {"cache_storage": str(tmp_path)}}
        ) as file:
            file.seek(500_000)
            assert file.read(1000) == content[500_000:501_000]
            file.seek(0)
            assert file.read() == content


@pytest.mark.parametrize("block_size", [100, 5000, 20_000, 70_000])
def test_small_blocks_of_a_pool_in_a_file_are_there_after_a_restart(tanada, tmp_path, block_size):
    """A file object is written in blocks, each of which extends it, and other objects are written
    in between.
    """
    import fsspec

    fsspec.process_entries()
    content = {
        f"a/{name}": os.urandom(size)
        for name, size in {"one": 100_000, "two": 333_333, "three": 65_536}.items()
    }
    with Daemon(tmp_path, "--backing", f"file:{tmp_path}/memory", size="64MiB") as daemon:
        fs = fsspec.filesystem(
            "tanada", host=daemon.host, port=daemon.port, timeout=20, skip_instance_cache=True
        )
        with contextlib.ExitStack() as files:
            opened = {
                path: files.enter_context(fs.open(path, "wb", block_size=block_size))
                for path in content
            }
            for at in range(0, 333_333, block_size):
                for path, file in opened.items():
                    file.write(content[path][at : at + block_size])
                fs.pipe_file(f"a/small{at // block_size % 7}", b"s" * (1 + at % 90))
        daemon.stop(signal.SIGTERM)
        daemon.start()
        fs = fsspec.filesystem(
            "tanada", host=daemon.host, port=daemon.port, timeout=20, skip_instance_cache=True
        )
        for path, expected in content.items():
            assert fs.cat_file(path) == expected
