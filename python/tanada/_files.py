"""Files of stores as Python's file objects: what :func:`tanada.open` returns."""

from __future__ import annotations

import io
import os
from typing import IO, Any

from . import _native
from ._units import nanoseconds

_READ, _WRITE, _CREATE, _EXCLUSIVE, _TRUNCATE = 1, 2, 4, 8, 16
_FLAGS = {
    "r": _READ,
    "w": _WRITE | _CREATE | _TRUNCATE,
    "a": _WRITE | _CREATE,
    "x": _WRITE | _CREATE | _EXCLUSIVE,
}
_BUFFER_SIZE = 1 << 20


class StoreIO(io.RawIOBase):
    """An open file of a store, without a buffer. Buffered files have it as ``raw``."""

    def __init__(self, url: str, flags: int, timeout: float) -> None:
        super().__init__()
        self.name = url
        self._flags = flags
        self._position = 0
        self._native: Any = None
        self._native = _native.StoreFile(os.fsencode(url), flags, nanoseconds(timeout))

    def _file(self) -> Any:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._native

    def readable(self) -> bool:
        return bool(self._flags & _READ)

    def writable(self) -> bool:
        return bool(self._flags & _WRITE)

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.readable():
            raise io.UnsupportedOperation("the file is not open for reading")
        count: int = self._file().read_into(self._position, buffer)
        self._position += count
        return count

    def write(self, data: Any) -> int:
        if not self.writable():
            raise io.UnsupportedOperation("the file is not open for writing")
        count: int = self._file().write(self._position, data)
        self._position += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            offset += self._file().size()
        elif whence != io.SEEK_SET:
            raise ValueError(f"whence is {whence}: use 0, 1 or 2")
        if offset < 0:
            raise ValueError(f"the position would be {offset}")
        self._position = offset
        return offset

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        wanted = self._position if size is None else size
        self._file().truncate(wanted)
        return wanted

    def sync(self) -> None:
        """Make what was written durable, as far as the store can. Flush buffers first."""
        self._file().sync()

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._native is not None:
                self._native.close()
        finally:
            super().close()


def _parse(mode: str) -> tuple[int, bool, bool]:
    """Flags, whether the file is binary, and whether it is read and written."""
    kinds = [letter for letter in mode if letter in _FLAGS]
    rest = sorted(letter for letter in mode if letter not in _FLAGS)
    if len(kinds) != 1 or "".join(rest) not in ("", "+", "b", "+b", "t", "+t"):
        raise ValueError(f"mode {mode!r}: use r, w, a or x, with b or t, and +")
    both = _READ | _WRITE if "+" in rest else 0
    return _FLAGS[kinds[0]] | both, "b" in rest, both != 0


def open(
    url: str | os.PathLike[str],
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    timeout: float = 30.0,
) -> IO[Any]:
    """Open a file of any store for reads and writes by the host, like Python's ``open``.

    ::

        with tanada.open("gfarm:///home/data/steps.txt") as file:
            for line in file: ...
        with tanada.open("pool://node1/runs/field", "wb") as file:
            file.write(array)

    The file has a connection of its own. What was written may be visible to others only once the
    file is closed, which ``pool://`` then commits.

    :param url: a path, or scheme://...
    :param mode: as of Python's ``open``: r, w, a or x, with b or t, and +. ``a`` begins at the end.
    :param buffering: bytes of the buffer, 1 MiB unless given; 0: none, in a binary mode.
    :param encoding: of text, UTF-8 unless given; ``errors`` and ``newline`` as for Python's
        ``open``.
    :param timeout: seconds, of each request to the store; ``math.inf``: no limit.
    :raises tanada.Error: ENOENT, EEXIST, EACCES; ETIMEDOUT; EINVAL: an unknown scheme;
        TND_ENOPLUGIN: the store's plugin is missing; statuses of the store.
    """
    flags, is_binary, is_both = _parse(mode)
    if is_binary and (encoding, errors, newline) != (None, None, None):
        raise ValueError("a binary mode has no encoding, errors or newline")
    if buffering == 0 and not is_binary:
        raise ValueError("text needs a buffer")
    name = os.fsdecode(url)
    if "\0" in name:
        raise ValueError(f"{name!r} contains a zero")
    raw = StoreIO(name, flags, timeout)
    try:
        if "a" in mode:
            raw.seek(0, io.SEEK_END)
        if buffering == 0:
            return raw  # type: ignore[return-value]
        size = buffering if buffering > 1 else _BUFFER_SIZE
        kind: Any = io.BufferedRandom if is_both else io.BufferedWriter
        if not is_both and flags & _READ:
            kind = io.BufferedReader
        buffered: Any = kind(raw, size)
        if is_binary:
            stream: IO[Any] = buffered
            return stream
        return io.TextIOWrapper(
            buffered, encoding or "utf-8", errors, newline, line_buffering=buffering == 1
        )
    except BaseException:
        raw.close()
        raise
