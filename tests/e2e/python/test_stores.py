"""tanada.stores: folders of stores, listed from Python."""

import errno
import os

import pytest


def test_a_folder_has_names_kinds_and_sizes(tanada, tmp_path):
    (tmp_path / "b").write_bytes(b"12345")
    (tmp_path / "a b").write_bytes(b"1")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c").write_bytes(b"123")
    for url in (tmp_path, f"file://{tmp_path}", f"{tmp_path}/"):
        entries = tanada.stores.list(url)
        assert [(entry.name, entry.is_folder, entry.size) for entry in entries] == [
            ("a b", False, 1),
            ("b", False, 5),
            ("below", True, None),
        ]
        assert entries[2].url.endswith("/below/")
        assert [entry.name for entry in tanada.stores.list(entries[2].url)] == ["c"]
    assert [entry.size for entry in tanada.stores.list(tmp_path, sizes=False)] == [None] * 3


def test_names_that_are_not_utf_8(tanada, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff"
    with open(path, "wb") as file:
        file.write(b"12")
    (entry,) = tanada.stores.list(tmp_path)
    assert (os.fsencode(entry.url), os.fsencode(entry.name), entry.size) == (path, b"\xff", 2)


def test_what_cannot_be_listed(tanada, tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    assert tanada.stores.list(tmp_path / "nothing") == []
    assert tanada.stores.list("mem://no-such-folder") == []
    with pytest.raises(tanada.Error, match="2 names") as caught:
        tanada.stores.list(tmp_path, entry_count_max=1)
    assert caught.value.errno == errno.EOVERFLOW
    with pytest.raises(tanada.Error) as caught:
        tanada.stores.list("no-such-scheme://a")
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(ValueError):
        tanada.stores.list("a\0b")
    with pytest.raises(ValueError):
        tanada.stores.list(tmp_path, entry_count_max=0)
