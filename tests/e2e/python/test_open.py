"""tanada.open: files of stores, read and written by the host."""

import errno
import io
import json
import os

import pytest
from pool_daemon import Daemon


@pytest.fixture(scope="module")
def own_pool(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("pool"), size="128MiB") as running:
        yield running


@pytest.fixture(params=["path", "file", "pool"])
def folder(request, tmp_path):
    if request.param == "path":
        return tmp_path
    if request.param == "file":
        return f"file://{tmp_path}"
    own_pool, namespace = (request.getfixturevalue(name) for name in ("own_pool", "namespace"))
    return own_pool.url(namespace)


def content(tanada, url):
    with tanada.open(url, "rb") as file:
        return file.read()


def test_bytes_are_written_read_and_replaced(tanada, folder):
    large = os.urandom(3_000_001)
    with tanada.open(f"{folder}/a", "wb") as file:
        assert isinstance(file, io.BufferedWriter)
        for begin in range(0, len(large), 100_000):
            file.write(large[begin : begin + 100_000])
        assert file.tell() == len(large)
    assert content(tanada, f"{folder}/a") == large
    with tanada.open(f"{folder}/a", "rb") as file:
        assert file.seek(-5, io.SEEK_END) == len(large) - 5
        assert file.read() == large[-5:]
        file.seek(1_000_000)
        assert file.read(10) == large[1_000_000:1_000_010]
        target = bytearray(20)
        assert file.readinto(target) == 20 and target == large[1_000_010:1_000_030]
    with tanada.open(f"{folder}/a", "wb") as file:
        file.write(b"short")
    assert content(tanada, f"{folder}/a") == b"short"


def test_modes_are_those_of_python(tanada, folder):
    url = f"{folder}/b"
    with pytest.raises(tanada.Error) as caught:
        tanada.open(url)
    assert caught.value.errno == errno.ENOENT
    with tanada.open(url, "xb", buffering=0) as file:
        assert isinstance(file, io.RawIOBase) and file.write(b"abc") == 3
        with pytest.raises(io.UnsupportedOperation):
            file.read(1)
    with pytest.raises(tanada.Error) as caught:
        tanada.open(url, "x")
    assert caught.value.errno == errno.EEXIST
    with tanada.open(url, "ab") as file:
        file.write(b"def")
    with tanada.open(url, "r+b") as file:
        file.seek(1)
        file.write(b"X")
        assert file.read() == b"cdef"
        file.truncate(5)
    assert content(tanada, url) == b"aXcde"


def test_text_has_lines_and_an_encoding(tanada, folder):
    with tanada.open(f"{folder}/t", "w", encoding="utf-16", newline="\n") as file:
        file.write("棚田\nrice\n")
        json.dump({"steps": 3}, file)
    with tanada.open(f"{folder}/t", encoding="utf-16") as file:
        assert [line.strip() for line in file] == ["棚田", "rice", '{"steps": 3}']
    with tanada.open(f"{folder}/t", "w") as file:
        print("棚田", file=file)
    assert content(tanada, f"{folder}/t") == "棚田\n".encode()


def test_arrays_are_written_without_a_copy_to_bytes(tanada, folder):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(5000, dtype="f8")
    with tanada.open(f"{folder}/n", "wb", buffering=0) as file:
        file.write(array)
        file.sync()
    with tanada.open(f"{folder}/n", "rb", buffering=0) as file:
        found = numpy.empty_like(array)
        assert file.readinto(found) == array.nbytes
    assert (found == array).all()


def test_a_closed_file_refuses_calls(tanada, folder):
    with tanada.open(f"{folder}/c", "wb") as file:
        raw = file.raw
    file.close()
    for call in (raw.sync, lambda: raw.write(b"1"), lambda: raw.seek(0, io.SEEK_END)):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("mode", ["", "q", "rw", "rbt", "r++", "b"])
def test_a_wrong_mode_is_refused(tanada, tmp_path, mode):
    with pytest.raises(ValueError, match="mode"):
        tanada.open(tmp_path / "a", mode)


def test_wrong_arguments_are_refused(tanada, tmp_path):
    with pytest.raises(ValueError, match="encoding"):
        tanada.open(tmp_path / "a", "wb", encoding="utf-8")
    with pytest.raises(ValueError, match="buffer"):
        tanada.open(tmp_path / "a", "w", buffering=0)
    with pytest.raises(ValueError, match="zero"):
        tanada.open("a\0b")
    with pytest.raises(tanada.Error) as caught:
        tanada.open("no-such-scheme://a")
    assert caught.value.errno == errno.EINVAL
    assert list(tmp_path.iterdir()) == []
