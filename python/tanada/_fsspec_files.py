"""Files of the fsspec file system: an object to read, and an object that is committed when its file
is closed.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractBufferedFile

from .pool import Object

if TYPE_CHECKING:
    from .fsspec import TanadaFileSystem

READ_BUFFER_SIZE = 256 << 10
WRITE_BUFFER_SIZE = 1 << 20


class _Positioned(io.RawIOBase):
    """A position in an object."""

    def __init__(self, opened: Object, position: int = 0) -> None:
        self.object = opened
        self.position = position

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.position}.get(whence)
        target = offset + (self.object.size if start is None else start)
        if target < 0:
            raise ValueError(f"seek to {target}")
        self.position = target
        return target


class _Reader(_Positioned):
    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        size = self.object.read_into(target, self.position)
        self.position += size
        return size

    def readall(self) -> bytes:
        content = self.object.read(-1, self.position)
        self.position += len(content)
        return content

    def close(self) -> None:
        self.object.close()
        super().close()


class ReadFile(io.BufferedReader):
    """A committed version, which later commits do not change."""

    def __init__(
        self, fs: TanadaFileSystem, path: str, opened: Object, block_size: int | None
    ) -> None:
        super().__init__(_Reader(opened), block_size or READ_BUFFER_SIZE)
        self.fs, self.path, self.size = fs, path, opened.size

    @property
    def mode(self) -> str:
        return "rb"


class BlockFile(AbstractBufferedFile):
    """A committed version for an fsspec file system that caches its blocks and fetches them by
    range.
    """

    def __init__(
        self, fs: TanadaFileSystem, path: str, opened: Object, block_size: int | None
    ) -> None:
        self.object = opened
        super().__init__(
            fs, path, "rb", block_size or READ_BUFFER_SIZE, cache_type="none", size=opened.size
        )

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.object.read(end - start, start)

    def close(self) -> None:
        self.object.close()
        super().close()


class _Writer(_Positioned):
    """Its content is committed only by :meth:`publish`."""

    mode = "r+b"

    def __init__(self, opened: Object, position: int, publish: Callable[[Object], object]) -> None:
        super().__init__(opened, position)
        self._publish = publish
        self._is_dropped = False

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, source: Any) -> int:
        size = memoryview(source).nbytes
        if not self._is_dropped:  # data still in a buffer are dropped, too
            self.object.write(source, self.position)
        self.position += size
        return size

    def readinto(self, target: Any) -> int:
        if self._is_dropped:
            return 0
        size = self.object.read_into(target, self.position)
        self.position += size
        return size

    def truncate(self, size: int | None = None) -> int:
        size = self.position if size is None else size
        if not self._is_dropped:
            self.object.resize(size)
        return size

    def publish(self) -> None:
        self._publish(self.object)

    def drop(self) -> None:
        self._is_dropped = True
        self.object.close()


class _Compressor(io.RawIOBase):
    """Compresses into a :class:`WriteFile`, which is closed or dropped with it."""

    def __init__(self, file: WriteFile, stream: Any) -> None:
        self._file = file
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, source: Any) -> int:
        if not self._file.closed:
            self._stream.write(source)
        return memoryview(source).nbytes

    def publish(self) -> None:
        self._stream.close()
        self._file.close()

    def drop(self) -> None:
        self._file.drop()
        with contextlib.suppress(OSError, ValueError):  # data still in it are discarded
            self._stream.close()
        self._file.discard()


class NewVersion(io.BufferedIOBase):
    """Committed as a whole by :meth:`close`. An exception in its ``with`` drops it, and so does
    garbage collection. It can be truncated and extended.

    The base of :class:`WriteFile` and :class:`UpdateFile`, before the buffer.
    """

    fs: TanadaFileSystem
    path: str
    set: str
    """The transaction that commits it; empty: its close commits it."""
    is_discarded: bool
    _ends: _Writer | _Compressor

    def _begin(self, fs: TanadaFileSystem, path: str, raw: _Writer | _Compressor) -> None:
        self._ends = raw
        self.fs, self.path = fs, path
        self.set = ""
        self.is_discarded = False

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            self._ends.publish()
        except BaseException:
            self.discard()
            raise
        super().close()

    def commit(self) -> None:
        """Commit a file that was opened with ``autocommit=False`` outside a transaction."""
        self.close()
        self.fs.publish([self])
        self._ends.drop()  # the handle of the object to commit

    def discard(self) -> None:
        """Drop it, also after a close that did not commit it."""
        self.drop()
        if not self.closed:
            super().close()

    def drop(self) -> None:
        """Drop all data, written and future; the file stays open."""
        self.is_discarded = True
        self._ends.drop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        # If the constructor failed, there is nothing to close.
        if getattr(self, "fs", None) is not None and not self.closed:
            warnings.warn(
                f"{self.path} was not closed, so it is not published",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            self.discard()


class WriteFile(NewVersion, io.BufferedWriter):
    """Written data can be read back with :meth:`readinto`, as HDF5 does."""

    def __init__(
        self, fs: TanadaFileSystem, path: str, raw: _Writer | _Compressor, block_size: int | None
    ) -> None:
        io.BufferedWriter.__init__(self, raw, block_size or WRITE_BUFFER_SIZE)
        self._begin(fs, path, raw)

    @property
    def mode(self) -> str:
        return "wb"

    def readinto(self, target: Any) -> int:
        """The data written so far, from the current position on."""
        if not isinstance(self._ends, _Writer):
            raise io.UnsupportedOperation(
                "a file that is compressed while it is written cannot be read"
            )
        self.flush()
        return self._ends.readinto(target)


class UpdateFile(NewVersion, io.BufferedRandom):
    """A new version that begins as a copy of the newest one, to be read and written."""

    def __init__(
        self, fs: TanadaFileSystem, path: str, raw: _Writer, block_size: int | None
    ) -> None:
        io.BufferedRandom.__init__(self, raw, block_size or WRITE_BUFFER_SIZE)
        self._begin(fs, path, raw)


class TextFile(io.TextIOWrapper):
    """Text over a :class:`NewVersion` or a :class:`ReadFile`."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and isinstance(self.buffer, NewVersion):
            self.buffer.discard()
            with contextlib.suppress(ValueError):  # it may hold text that cannot be written any
                # more
                self.close()
        else:
            self.close()


def compressed(file: WriteFile, compress: Callable[..., Any], block_size: int | None) -> WriteFile:
    """A file whose bytes go through ``compress``, one of ``fsspec.compression.compr``, into
    ``file``.
    """
    return WriteFile(file.fs, file.path, _Compressor(file, compress(file, mode="w")), block_size)
