"""The memory pool of a storage node: objects put, read and committed whole.

::

    with tanada.pool.connect("pool://node1/run7") as pool:
        pool.put("field/0010", array)
        with pool.open("field/0010") as snapshot:
            field = numpy.frombuffer(snapshot.map(), "f4")  # in the pool's memory; no copy

Sources and targets are objects with the buffer protocol, DLPack or ``__cuda_array_interface__``: bytes, NumPy, PyTorch,
CuPy, Numba; device memory is read and written in place. Failed calls raise ``tanada.Error``. A connection is one
namespace and may be used by any thread, by one at a time: connect once a thread for more. One that breaks fails what is
under way with ``TND_EPEER`` and connects again at the next call; objects opened before fail with ``ESTALE`` then.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import pathlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from . import _native, _programs
from ._closing import Closing, Watched
from ._error import Error
from ._pool_records import (
    Checksum,
    Connection,
    Entry,
    Flags,
    Info,
    Level,
    Path,
    PathTraffic,
    Request,
    RequestKind,
    Statistics,
    Traffic,
)
from ._units import nanoseconds, number_of_bytes

if TYPE_CHECKING:

    class Mapping(_native.Mapping):
        """A committed object's bytes in the pool's memory: read-only, for ``memoryview``, NumPy and
        DLPack.
        """

        def __buffer__(self, flags: int, /) -> memoryview: ...
else:
    Mapping = _native.Mapping

__all__ = [
    "Checksum",
    "Connection",
    "Entry",
    "Flags",
    "Info",
    "Level",
    "Mapping",
    "Object",
    "Path",
    "PathTraffic",
    "Pool",
    "Request",
    "RequestKind",
    "Statistics",
    "Traffic",
    "connect",
    "serve",
]

DEFAULT_PORT = 7440
NAME_SIZE_MAX = 512
"""Longest name of an object, a set or a namespace, bytes."""

_EXCLUSIVE, _VERIFY, _KEEP = 1 << 9, 1 << 10, 1 << 11
_SIZE_MAX = 2**64 - 1


def encode_name(name: str | bytes) -> bytes:
    """A name in the pool's encoding, UTF-8.

    :raises ValueError: a zero inside, which no name has.
    """
    encoded = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else bytes(name)
    if b"\0" in encoded:
        raise ValueError(f"a name has no zero inside: {name!r}")
    return encoded


def decode_name(name: bytes) -> str:
    """The inverse. Invalid UTF-8 becomes surrogates, as in names of files."""
    return name.decode("utf-8", "surrogateescape")


def _flags(
    *,
    evictable: bool = False,
    pinned: bool = False,
    durable: bool = False,
    exclusive: bool = False,
    verify: bool = False,
    keep: bool = False,
) -> int:
    return (
        evictable * Flags.EVICTABLE
        | pinned * Flags.PINNED
        | durable * Flags.DURABLE
        | exclusive * _EXCLUSIVE
        | verify * _VERIFY
        | keep * _KEEP
    )


def _checksum(kind: Checksum | str | None) -> int:
    return Checksum.NONE if kind is None else Checksum.of(kind)


class Object(Closing):
    """An object being written (:meth:`Pool.create`) or a committed one (:meth:`Pool.open`).

    Offsets and sizes are bytes. The end of a ``with`` closes it and drops uncommitted data.
    """

    def __init__(self, pool: Pool, name: str, native: _native.PoolObject) -> None:
        self.pool = pool
        self.name = name
        self._native: _native.PoolObject = native

    def info(self) -> Info:
        """The opened version; for an object being written its current size, and version 0."""
        return Info.of(self._native.info())

    @property
    def size(self) -> int:
        """Bytes."""
        return self._native.info()[0]

    def write(self, source: Any, offset: int = 0) -> None:
        """Write a contiguous array; it may be changed again after the return. A write past the end
        extends the object.

        :raises tanada.Error: EBADF: the object is committed; ENOSPC. The range is undefined then.
        """
        self._native.write(offset, source)

    def write_box(self, source: Any, offset: int = 0, strides: Sequence[int] = ()) -> None:
        """Write an array of up to three dimensions whose rows (the last dimension, or more) are
        contiguous.

        :param strides: bytes between rows in the object, for each of the array's leading
            dimensions, two at most; none: the rows are contiguous there. A plane of a larger array
            has the larger array's strides.
        """
        self._native.write_box(offset, source, list(strides))

    def resize(self, size: int | str) -> None:
        """Truncate an object being written, or extend it with zeros.

        :param size: bytes, or text such as "64MiB".
        :raises tanada.Error: EBADF: it is committed.
        """
        self._native.resize(number_of_bytes(size))

    def read(self, size: int = -1, offset: int = 0) -> bytes:
        """Read bytes from an offset; fewer than ``size`` only at the end. Below 0: to the end."""
        return self._native.read(offset, _SIZE_MAX if size < 0 else size)

    def read_into(self, target: Any, offset: int = 0) -> int:
        """Fill a contiguous array.

        :returns: bytes read; fewer than the array's size only at the object's end.
        """
        return self._native.read_into(offset, target)

    def read_box(self, target: Any, offset: int = 0, strides: Sequence[int] = ()) -> None:
        """Fill an array; as :meth:`write_box`.

        :raises tanada.Error: ERANGE: a row lies past the end.
        """
        self._native.read_box(offset, target, list(strides))

    def commit(
        self,
        *,
        durable: bool = False,
        checksum: Checksum | str | None = None,
        expected: int | None = None,
        verify: bool = False,
    ) -> int:
        """Commit the object: from now on its name opens this version, and it can be read. In a set:
        prepare it.

        :param durable: return when the change is durable in the pool's backing.
        :param checksum: "crc32c" or "xxh3"; the daemon computes it, unless ``expected`` is given.
        :param expected: the checksum of the intended bytes; with ``verify`` the daemon compares.
        :returns: the version; 0 in a set.
        :raises tanada.Error: TND_ECORRUPT: the bytes do not match the checksum, and nothing was
            committed; EOPNOTSUPP: the pool has no durable backing, and nothing was committed; EIO,
            ENOSPC: the backing failed, and the object is not durable.
        """
        return self._native.commit(
            _flags(durable=durable, verify=verify), _checksum(checksum), expected
        )

    def map(self) -> Mapping:
        """A committed object's bytes in the pool's memory; views of them keep them alive.

        :raises tanada.Error: EOPNOTSUPP: this connection shares no memory with the pool.
        """
        return cast(Mapping, self._native.map())

    def post_write(self, source: Any, offset: int = 0) -> Request:
        """Post a :meth:`write`: see :meth:`Pool.poll`. The source must not change until it is
        complete.
        """
        return self._post(RequestKind.WRITE, offset, source, 0, 0)

    def post_read(self, target: Any, offset: int = 0) -> Request:
        """Post a :meth:`read_into`: see :meth:`Pool.poll`."""
        return self._post(RequestKind.READ, offset, target, 0, 0)

    def post_commit(
        self, *, durable: bool = False, checksum: Checksum | str | None = None
    ) -> Request:
        """Post a :meth:`commit`: see :meth:`Pool.poll`."""
        return self._post(RequestKind.COMMIT, 0, None, _flags(durable=durable), _checksum(checksum))

    def _post(
        self, kind: RequestKind, offset: int, memory: Any, flags: int, checksum: int
    ) -> Request:
        return self.pool._remember(
            lambda: self.pool._native.post_object(
                kind, self._native, offset, memory, flags, checksum
            ),
            Request(kind, self),
        )

    def close(self) -> None:
        """Close the object; uncommitted data are dropped. No-op if closed."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<tanada.pool.Object {self.name!r} {'closed' if self.closed else 'open'} at {id(self):#x}>"


class Pool(Watched):
    """A connection to one namespace of a pool, created by :func:`connect`."""

    def __init__(self, native: _native.Pool, url: str) -> None:
        self._native: _native.Pool = native
        self._lock = threading.Lock()  # guards the requests
        self._requests: dict[int, Request] = {}
        self.url = url

    def connection(self) -> Connection:
        """The path of the bytes, and why there is no better one."""
        return Connection.of(self._native.connection())

    def statistics(self) -> Statistics:
        """The daemon's counters."""
        return Statistics(**self._native.statistics())

    def traffic(self) -> Traffic:
        """The traffic of this connection so far, by path; sends no request."""
        return Traffic.of(self._native.traffic())

    def put(
        self,
        name: str | bytes,
        source: Any,
        *,
        durable: bool = False,
        checksum: Checksum | str | None = None,
        expected: int | None = None,
        verify: bool = False,
        exclusive: bool = False,
        evictable: bool = False,
        pinned: bool = False,
    ) -> None:
        """Create, write and commit an object.

        :param exclusive: fail with EEXIST if a committed object has the name.
        :param evictable: a full pool may evict it. ``pinned``: it may not.
        :raises tanada.Error: as :meth:`create` and :meth:`Object.commit`.
        """
        flags = _flags(
            durable=durable, verify=verify, exclusive=exclusive, evictable=evictable, pinned=pinned
        )
        self._native.put(encode_name(name), source, flags, _checksum(checksum), expected)

    def get(self, name: str | bytes, *, verify: bool = False) -> bytes:
        """The newest version of an object.

        :param verify: compare with the object's checksum; TND_ECORRUPT where it differs.
        :raises tanada.Error: ENOENT: no committed object has the name.
        """
        return self._native.get(encode_name(name), _flags(verify=verify))

    def get_into(self, name: str | bytes, target: Any, *, verify: bool = False) -> int:
        """:meth:`get` into a contiguous array.

        :returns: bytes of the object.
        :raises tanada.Error: ERANGE: it is larger than the array.
        """
        return self._native.get_into(encode_name(name), target, _flags(verify=verify))

    def create(
        self,
        name: str | bytes,
        size: int | str = 0,
        *,
        set: str | bytes | None = None,
        exclusive: bool = False,
        keep: bool = False,
        evictable: bool = False,
        pinned: bool = False,
    ) -> Object:
        """Create an object. It is not visible before :meth:`Object.commit`; unwritten bytes are 0.

        :param size: bytes, or text such as "64MiB": reserved immediately.
        :param set: name of the set with which :meth:`set_commit` commits it.
        :param keep: start with the bytes of the newest version, if there is one.
        :raises tanada.Error: ENOSPC: the pool or the quota is full; EACCES: the key permits only
            reading; EEXIST, with ``exclusive``; EMFILE: too many are open.
        """
        flags = _flags(exclusive=exclusive, keep=keep, evictable=evictable, pinned=pinned)
        encoded = encode_name(name)
        native = self._native.create(
            encoded, number_of_bytes(size), flags, None if set is None else encode_name(set)
        )
        return Object(self, decode_name(encoded), native)

    def open(self, name: str | bytes, version: int = 0) -> Object:
        """Open a committed version; it stays readable until closed, whatever happens to its name.

        :param version: 0: the newest.
        :raises tanada.Error: ENOENT: it does not exist, or no longer.
        """
        encoded = encode_name(name)
        return Object(self, decode_name(encoded), self._native.open(encoded, version))

    def stat(self, name: str | bytes, version: int = 0) -> Info:
        """Information about the version that :meth:`open` would open.

        :raises tanada.Error: ENOENT.
        """
        return Info.of(self._native.stat(encode_name(name), version))

    def list(self, prefix: str | bytes = "", *, count_max: int = 0) -> builtins.list[Entry]:
        """The newest version of each object whose name has this prefix, sorted by bytes; an empty
        prefix: all.
        """
        return [
            Entry(decode_name(name), Info.of(record))
            for name, record in self._native.entries(encode_name(prefix), b"", count_max)
            if record is not None
        ]

    def list_level(self, prefix: str | bytes = "", delimiter: str | bytes = "/") -> Level:
        """The objects whose name has this prefix and no delimiter after it, and what the other
        names begin with. The cost does not depend on the number of objects in lower levels.
        """
        if not delimiter:
            raise ValueError("the delimiter is empty")
        level = Level([], [])
        found = self._native.entries(encode_name(prefix), encode_name(delimiter), 0)
        for name, record in found:
            if record is None:
                level.prefixes.append(decode_name(name))
            else:
                level.entries.append(Entry(decode_name(name), Info.of(record)))
        return level

    def rename(
        self,
        name: str | bytes,
        new_name: str | bytes,
        *,
        exclusive: bool = False,
        durable: bool = False,
    ) -> None:
        """Rename an object; replaces an object of that name, unless ``exclusive``."""
        self._native.rename(
            encode_name(name), encode_name(new_name), _flags(exclusive=exclusive, durable=durable)
        )

    def remove(self, name: str | bytes, *, durable: bool = False) -> None:
        """Remove a name; clients that have the object open can still read it."""
        self._native.remove(encode_name(name), _flags(durable=durable))

    def set_flags(
        self, name: str | bytes, *, evictable: bool = False, pinned: bool = False
    ) -> None:
        """Set both flags of the newest version."""
        self._native.set_flags(encode_name(name), _flags(evictable=evictable, pinned=pinned))

    def set_commit(self, set: str | bytes, count: int, *, durable: bool = False) -> None:
        """Commit all objects of a set at once. The writer of each has prepared it by a commit.

        :param count: number of objects that the set must have; otherwise EAGAIN, and nothing
            changes.
        """
        self._native.set_commit(encode_name(set), count, _flags(durable=durable))

    def post_put(
        self,
        name: str | bytes,
        source: Any,
        *,
        durable: bool = False,
        checksum: Checksum | str | None = None,
        exclusive: bool = False,
        evictable: bool = False,
        pinned: bool = False,
    ) -> Request:
        """Post a :meth:`put`: see :meth:`poll`. The source, host memory, must not change until it
        is complete.
        """
        flags = _flags(durable=durable, exclusive=exclusive, evictable=evictable, pinned=pinned)
        return self._post(RequestKind.PUT, name, source, flags, _checksum(checksum))

    def post_get(self, name: str | bytes, target: Any, *, verify: bool = False) -> Request:
        """Post a :meth:`get_into`: see :meth:`poll`. The target is host memory."""
        return self._post(RequestKind.GET, name, target, _flags(verify=verify), 0)

    def _post(
        self, kind: RequestKind, name: str | bytes, memory: Any, flags: int, checksum: int
    ) -> Request:
        encoded = encode_name(name)
        return self._remember(
            lambda: self._native.post_named(kind, encoded, memory, flags, checksum),
            Request(kind, decode_name(encoded)),
        )

    def _remember(self, post: Callable[[], int], request: Request) -> Request:
        # Another thread may reap it before post() has returned.
        with self._lock:
            self._requests[post()] = request
        return request

    def poll(self, timeout: float = 30.0) -> builtins.list[Request]:
        """Process posted requests in order, and return the completed ones; waits for the first.

        Requests make progress only in this call and in posts. A post raises EAGAIN when too many
        are outstanding: poll, then repeat it. Check each request's ``error``, or call its
        ``check()``.

        :param timeout: seconds; 0 does not wait.
        :returns: an empty list if nothing completed in time, or nothing is outstanding.
        """
        finished = []
        for number, status, _, size, version, path in self._native.poll(nanoseconds(timeout)):
            with self._lock:
                request = self._requests.pop(number)
            request.done, request.size, request.version, request.path = (
                True,
                size,
                version,
                Path(path),
            )
            request.error = None if status == 0 else Error(status)
            finished.append(request)
        return finished

    def close(self) -> None:
        """Close the connection and its objects; uncommitted data are dropped. No-op if closed.

        Views of a mapping keep the connection alive internally until they are released.
        """
        self._native.close()
        with self._lock:
            for request in self._requests.values():
                request.done, request.error = (
                    True,
                    Error(-_native.ESTATE, "the connection was closed before it was done"),
                )
            self._requests.clear()

    def __repr__(self) -> str:
        return f"<tanada.pool.Pool {self.url!r} {'closed' if self.closed else 'open'} at {id(self):#x}>"


def connect(
    url: str,
    *,
    timeout: float | None = None,
    key_file: str | os.PathLike[str] | None = None,
    fabric: str | None = None,
    shared_memory: bool | None = None,
    device_index: int | None = None,
    kind: type[Pool] | None = None,
) -> Pool:
    """Connect to a namespace of a pool. Close it, preferably by ``with``.

    Arguments left at None have the library's defaults. A variable of the environment
    (``TND_POOL_TIMEOUT``, ...) overrides the argument.

    :param url: pool://host[:port]/namespace.
    :param timeout: seconds; limit of each call; ``math.inf``: none.
    :param key_file: the client's key, mode 0600.
    :param fabric: libfabric provider for RDMA.
    :param shared_memory: False: do not map the pool's memory, even on the same node.
    :param device_index: CUDA device of the arrays in device memory.
    :param kind: the class of the connection.
    :raises tanada.Error: EINVAL: a malformed URL, variable or key file; the message names it;
        EACCES: the key is refused or is for other namespaces; TND_EPEER: no pool answers there;
        ETIMEDOUT.
    """
    native = _native.Pool(
        encode_name(url),
        None if timeout is None else nanoseconds(timeout),
        None if key_file is None else os.fsencode(key_file),
        None if fabric is None else fabric.encode(),
        shared_memory,
        device_index,
    )
    return (kind or Pool)(native, url)


_START_LIMIT_S = 120
_STOP_LIMIT_S = 30


@contextlib.contextmanager
def serve(size: int | str = "1GiB", *options: str) -> Iterator[str]:
    """Run a pool on this node, on a free port of loopback, during the ``with``.

    ::

        with tanada.pool.serve("4GiB") as url, tanada.pool.connect(f"{url}/run7") as pool:
            pool.put("a", b"content")

    Its content ends with it, unless ``options`` set a durable backing. A process that is killed
    leaves its pool running.

    :param size: of the pool, populated at the start; bytes or text such as "64MiB".
    :param options: more options of ``tanada-poold``, such as "--backing", "flash:/nvme/pool".
    :returns: the URL without a namespace.
    :raises RuntimeError: it did not start; the message is the end of its log.
    """
    with tempfile.TemporaryDirectory(prefix="tanada-pool-") as name:
        folder = pathlib.Path(name)
        port_file, log = folder / "port", folder / "log"
        command: list[str] = [
            str(_programs.path("tanada-poold")),
            "--listen",
            "127.0.0.1",
            "--port",
            "0",
            "--port-file",
            str(port_file),
            "--size",
            str(number_of_bytes(size)),
            *options,
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            limit = time.monotonic() + _START_LIMIT_S
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() >= limit:
                    raise RuntimeError(
                        f"tanada-poold did not start: {log.read_text(errors='replace')[-1000:].strip()}"
                    )
                time.sleep(0.01)
            yield f"pool://127.0.0.1:{port_file.read_text().split()[0]}"
        finally:
            process.terminate()
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
