"""An fsspec file system over the memory pool: ``tanada://host[:port]/namespace/path``. A cluster's
servers are separated by commas: ``tanada://host[:port],host[:port]/namespace/path``.

A file is an object, committed as a whole when it is closed: readers see the last version or the new
one, and an exception in the writer's ``with`` keeps the old version. Folders are the parts of names
before a slash; they need not be created, and disappear with their last file. The files of a
transaction are committed together, for each namespace. fsspec finds this module by its entry point,
so programs need not import it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import threading
import uuid
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.spec import AbstractFileSystem
from fsspec.transaction import Transaction
from fsspec.utils import stringify_path

from . import pool
from ._error import Error
from ._fsspec_files import (
    BlockFile,
    NewVersion,
    ReadFile,
    TextFile,
    UpdateFile,
    WriteFile,
    _Writer,
    compressed,
)

__all__ = ["TanadaFileSystem"]

_COPY_SIZE = 16 << 20
_SCHEME = "tanada://"


def _new_set() -> str:
    return f"fsspec-{uuid.uuid4()}"


class _Connection(pool.Pool):
    """A connection that ends with its thread and with the last file open on it; it is never closed
    explicitly.
    """

    def __del__(self) -> None:
        pass


class _Transaction(Transaction):
    """The files of each namespace are a set of the pool, which is committed at once."""

    fs: Any

    def __init__(self, fs: TanadaFileSystem, **kwargs: Any) -> None:
        super().__init__(fs, **kwargs)
        self.set = _new_set()

    def complete(self, commit: bool = True) -> None:
        files: list[NewVersion] = [file for file in self.files if not file.is_discarded]
        self.files.clear()
        try:
            if commit:
                for file in files:
                    file.close()
                self.fs.publish(files)
        finally:
            for file in files:
                file.discard()  # the handle of the object to commit
            self.fs._intrans = False
            self.fs._transaction = None
            self.fs = None


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Raises the Python class of the error if there is one: FileNotFoundError, PermissionError, ..."""
    try:
        yield
    except Error as error:
        if error.status <= -256:
            raise
        raise OSError(error.errno, error.strerror, path) from error


class TanadaFileSystem(AbstractFileSystem):
    """Objects of a pool as files. It connects once for each thread and namespace, at the first use.

    :param host: of the pool; default: the URL's host. Of a cluster, ``host[:port],host``: servers,
        the last one without its port.
    :param durable: every commit waits until the file is durable in the pool's backing.
    :param checksum: "crc32c" or "xxh3": computed for every file by the daemon; whole reads verify
        it.
    :param settings: of :func:`tanada.pool.connect`: ``timeout``, ``key_file``, ``fabric``,
        ``shared_memory``.
    """

    protocol = "tanada"
    root_marker = ""
    transaction_type = _Transaction

    def __init__(
        self,
        host: str = "localhost",
        port: int = pool.DEFAULT_PORT,
        *,
        durable: bool = False,
        checksum: str | None = None,
        timeout: float | None = None,
        key_file: str | None = None,
        fabric: str | None = None,
        shared_memory: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__(host=host, port=port, **options)
        self.host, self.port, self.durable, self.file_checksum = host, int(port), durable, checksum
        self._settings: dict[str, Any] = {
            "timeout": timeout,
            "key_file": key_file,
            "fabric": fabric,
            "shared_memory": shared_memory,
        }
        self._local = threading.local()

    @property
    def fsid(self) -> str:
        return f"tanada-{self.host}-{self.port}"

    # Paths: "namespace/name", without the host.

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = stringify_path(path)
        if text.startswith(_SCHEME):
            text = text[len(_SCHEME) :].partition("/")[2]
        return text.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: Any) -> dict[str, Any]:
        text = stringify_path(path)
        if not text.startswith(_SCHEME):
            return {}
        host = text[len(_SCHEME) :].partition("/")[0]
        port = ""
        last = host.rpartition(",")[2]  # of the servers of a cluster
        if not last.endswith("]") and ":" in last:  # [::1] is an address without a port
            host, _, port = host.rpartition(":")
        return {**({"host": host} if host else {}), **({"port": int(port)} if port else {})}

    def unstrip_protocol(self, name: str) -> str:
        return f"{_SCHEME}{self.host}:{self.port}/{self._strip_protocol(name)}"

    def _split(self, path: str) -> tuple[pool.Pool, str]:
        """This thread's connection to the path's namespace, and the object's name."""
        namespace, _, name = self._strip_protocol(path).partition("/")
        if not namespace:
            raise ValueError(f"{path!r} has no namespace; a path is namespace/name")
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process, self._local.pools = os.getpid(), {}
        connections: dict[str, pool.Pool] = self._local.pools
        if namespace not in connections:
            with _errors_of(path):
                connections[namespace] = pool.connect(
                    f"pool://{self.host}:{self.port}/{namespace}",
                    **self._settings,
                    kind=_Connection,
                )
        return connections[namespace], name

    # Queries.

    def _record(self, path: str, info: pool.Info) -> dict[str, Any]:
        return {
            "name": path,
            "size": info.size,
            "type": "file",
            "created": info.created,
            "version": info.version,
            "checksum": info.checksum,
            "checksum_kind": info.checksum_kind.name.lower(),
            "flags": int(info.flags),
        }

    def _folder(self, path: str) -> dict[str, Any]:
        return {"name": path, "size": 0, "type": "directory"}

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        connection, name = self._split(path)
        if not name:
            return self._folder(path)
        with _errors_of(path):
            try:
                return self._record(path, connection.stat(name))
            except Error as error:
                if error.name != "ENOENT" or not connection.list(name + "/", count_max=1):
                    raise
        return self._folder(path)

    def _type(self, path: str) -> str:
        # fsspec's own methods treat every error, such as a pool that does not answer, as a missing
        # file.
        try:
            return str(self.info(path)["type"])
        except FileNotFoundError:
            return ""

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self._type(path) != ""

    def isdir(self, path: str) -> bool:
        return self._type(path) == "directory"

    def isfile(self, path: str) -> bool:
        return self._type(path) == "file"

    def created(self, path: str) -> Any:
        record = self.info(path)
        if record["type"] != "file":
            raise IsADirectoryError(f"{path} is a folder, which has no time")
        return record["created"]

    modified = created  # a version never changes

    def _below(self, path: str) -> list[tuple[str, dict[str, Any]]]:
        """(name below the path, record) of each file there."""
        connection, name = self._split(path)
        prefix = name + "/" if name else ""
        with _errors_of(path):
            return [
                (
                    entry.name[len(prefix) :],
                    self._record(f"{path}/{entry.name[len(prefix) :]}", entry.info),
                )
                for entry in connection.list(prefix)
                if entry.name != prefix
            ]

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        connection, name = self._split(path)
        prefix = name + "/" if name else ""
        with _errors_of(path):
            level = connection.list_level(prefix)
        found = {
            folder[len(prefix) : -1]: self._folder(f"{path}/{folder[len(prefix) : -1]}")
            for folder in level.prefixes
        }
        for entry in level.entries:
            below = entry.name[len(prefix) :]
            if below:
                found[below] = self._record(f"{path}/{below}", entry.info)
        if not found:
            record = self.info(path)
            found = {"": record} if record["type"] == "file" else {}
        records = [found[name] for name in sorted(found)]
        return records if detail else [record["name"] for record in records]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        found: dict[str, dict[str, Any]] = {}
        for name, record in self._below(path):
            parts = name.split("/")
            if maxdepth is None or len(parts) <= maxdepth:
                found[record["name"]] = record
            for depth in range(len(parts)) if withdirs else ():
                if maxdepth is None or depth <= maxdepth:
                    folder = "/".join([path, *parts[:depth]])
                    found.setdefault(folder, self._folder(folder))
        if not found and self._type(path) == "file":
            found = {path: self.info(path)}
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    # Files.

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Any = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        text = {key: kwargs.pop(key) for key in ("encoding", "errors", "newline") if key in kwargs}
        binary = mode.replace("t", "") + ("" if "b" in mode else "b")
        updates = "+" in mode
        reads = "r" in mode and not updates
        if updates and compression is not None:
            raise ValueError("a compressed file cannot be updated")
        file = super().open(
            path, binary, block_size, cache_options, compression if reads else None, **kwargs
        )
        if updates and "r" in mode and file.set:
            self.transaction.files.append(file)  # fsspec takes it for a file to read
        # fsspec's wrapper of a written file would neither close nor drop it.
        name = None if reads else get_compression(self._strip_protocol(path), compression)
        if name is not None:
            file = compressed(file, compr[name], block_size)
        return file if "b" in mode else TextFile(file, **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> ReadFile | NewVersion | BlockFile:
        connection, name = self._split(path)
        if mode not in ("rb", "wb", "ab", "xb", "r+b", "w+b"):
            raise ValueError(f"mode {mode!r} is none of rb, wb, ab, xb, r+b, w+b")
        with _errors_of(path):
            if (
                mode == "rb" and kwargs.get("cache_type") == "none"
            ):  # of a file system that caches blocks
                return BlockFile(self, path, connection.open(name), block_size)
            if mode == "rb":
                return ReadFile(self, path, connection.open(name), block_size)
            if mode == "r+b":
                connection.stat(name)
            set_name = self._transaction.set if self._intrans else _new_set()
            made = connection.create(
                name,
                set=None if autocommit else set_name,
                keep=mode in ("ab", "r+b"),
                exclusive=mode == "xb",
            )
            publish = functools.partial(self._commit if autocommit else self._prepare, path)
            writer = _Writer(made, made.size if mode == "ab" else 0, publish)
            kind = UpdateFile if "+" in mode else WriteFile
            file = kind(self, path, writer, block_size)
            file.set = "" if autocommit else set_name
            return file

    def _prepare(self, path: str, made: pool.Object) -> None:
        with _errors_of(path):
            made.commit(durable=self.durable, checksum=self.file_checksum)

    def _commit(self, path: str, made: pool.Object) -> None:
        self._prepare(path, made)
        made.close()

    def publish(self, files: Iterable[NewVersion]) -> None:
        """Commit closed files, those of one set and namespace together."""
        # If a name was written twice, the set has the last version.
        counts = collections.Counter(
            (path.partition("/")[0], name)
            for path, name in {(file.path, file.set) for file in files}
        )
        for (namespace, set_name), count in counts.items():
            with _errors_of(namespace):
                self._split(namespace)[0].set_commit(set_name, count, durable=self.durable)

    def get(self, rpath: Any, lpath: Any, *arguments: Any, **options: Any) -> Any:
        """As in fsspec. Names with a component ``..`` are skipped with a warning, because they lead
        out of ``lpath``.
        """
        self._local.skips_escapes = not isinstance(lpath, list)
        try:
            return super().get(rpath, lpath, *arguments, **options)
        finally:
            self._local.skips_escapes = False

    def expand_path(self, path: Any, *arguments: Any, **options: Any) -> Any:
        names = super().expand_path(path, *arguments, **options)
        if not getattr(self._local, "skips_escapes", False):
            return names
        inside = [name for name in names if ".." not in name.split("/")]
        if not inside:
            return names  # fsspec refuses the arguments
        for name in names:
            if ".." in name.split("/"):
                warnings.warn(
                    f"{name!r} is left out: its name leads out of the target folder",
                    RuntimeWarning,
                    stacklevel=3,
                )
        return inside

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        connection, name = self._split(path)
        with _errors_of(path):
            if start is None and end is None:
                return connection.get(name, verify=self.file_checksum is not None)
            with connection.open(name) as opened:
                first, last, _ = slice(start, end).indices(opened.size)
                return opened.read(max(last - first, 0), first)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
            return
        connection, name = self._split(path)
        with _errors_of(path):
            connection.put(
                name,
                value,
                durable=self.durable,
                checksum=self.file_checksum,
                exclusive=mode == "create",
            )

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        if not truncate and self.exists(path):
            raise NotImplementedError("the time of a file is that of its commit")
        self.pipe_file(path, b"")

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        source_pool, source_name = self._split(path1)
        with (
            _errors_of(path1),
            source_pool.open(source_name) as source,
            self.open(path2, "wb") as target,
        ):
            buffer = memoryview(bytearray(min(_COPY_SIZE, source.size)))
            for offset in range(0, source.size, _COPY_SIZE):
                target.write(buffer[: source.read_into(buffer, offset)])

    # Names.

    def mv(
        self,
        path1: str,
        path2: str,
        recursive: bool = False,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Rename; the files of a folder one after the other. Into ``path2`` if that is a folder or
        ends with a slash.
        """
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if str(path2).endswith("/") or self.isdir(target):
            target = f"{target}/{source.rpartition('/')[2]}"
        kind = self._type(source)
        if kind == "file":
            self._move(source, target)
        elif kind == "directory" and not recursive:
            raise IsADirectoryError(f"{source} is a folder; recursive=True moves it")
        else:
            names = self.find(source, maxdepth=maxdepth)
            if not names:
                raise FileNotFoundError(source)
            for name in names:
                self._move(name, target + name[len(source) :])

    def _move(self, source: str, target: str) -> None:
        (connection, name), (target_connection, target_name) = (
            self._split(source),
            self._split(target),
        )
        if connection is not target_connection:
            self.cp_file(source, target)
            self.rm_file(source)
        elif name != target_name:
            with _errors_of(source):
                connection.rename(name, target_name, durable=self.durable)

    def rm_file(self, path: str) -> None:
        connection, name = self._split(path)
        with _errors_of(path):
            connection.remove(name, durable=self.durable)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for each in [path] if isinstance(path, (str, os.PathLike)) else path:
            each = self._strip_protocol(each)
            names = self.glob(each) if any(letter in each for letter in "*?[") else [each]
            for name in names or [each]:
                self._remove(name, recursive, maxdepth)

    def _remove(self, path: str, recursive: bool, maxdepth: int | None) -> None:
        kind = self._type(path)
        if kind == "directory" and not recursive:
            raise IsADirectoryError(f"{path} is a folder; recursive=True removes it")
        if kind != "directory":
            self.rm_file(path)
        for name in self.find(path, maxdepth=maxdepth) if recursive else ():
            with contextlib.suppress(FileNotFoundError):  # another client removed it meanwhile
                self.rm_file(name)
