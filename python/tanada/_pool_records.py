"""What the pool tells, as Python's records. Names and meanings are those of tanada/pool.h; sizes are bytes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from ._records import _Choice

if TYPE_CHECKING:
    from ._error import Error
    from .pool import Object


class Path(_Choice):
    """How bytes travel between this process and the pool."""

    SHARED_MEMORY = 0
    """Both map the pool's memory; this process copies, once."""
    UNIX = 1
    """Through a UNIX socket."""
    TCP = 2
    """Through TCP."""
    RDMA = 3
    """The daemon reads and writes this process's memory over a fabric."""
    GPU_DIRECT = 4
    """Device memory: its GPU copies from and to the mapping, or RDMA reaches it."""
    FABRIC = 5
    """As RDMA, by a provider that copies in software."""
    NONE = 255
    """No bytes moved."""


class Checksum(_Choice):
    """Of an object's bytes."""

    NONE = 0
    CRC32C = 1
    """In the low 32 bits."""
    XXH3 = 2
    """64 bits, seed 0."""


class Flags(enum.IntFlag):
    """Of objects."""

    EVICTABLE = 1
    """A full pool may drop it, the one unused longest first."""
    PINNED = 2
    """Never dropped to make room."""
    DURABLE = 256
    """The pool's backing holds it."""


class Info(NamedTuple):
    """A committed object; of one being written, its size so far and version 0."""

    size: int
    version: int
    """Of this commit; later commits in the pool have higher ones."""
    created_ns: int
    """Of the commit, since 1970-01-01 UTC."""
    checksum: int
    checksum_kind: Checksum
    flags: Flags

    @classmethod
    def of(cls, record: tuple[int, int, int, int, int, int]) -> Info:
        size, version, created_ns, checksum, checksum_kind, flags = record
        return cls(size, version, created_ns, checksum, Checksum(checksum_kind), Flags(flags))

    @property
    def created(self) -> datetime:
        """Time of the commit, in UTC."""
        seconds, nanoseconds = divmod(self.created_ns, 10**9)
        return datetime.fromtimestamp(seconds, timezone.utc).replace(
            microsecond=nanoseconds // 1000
        )


class Entry(NamedTuple):
    """One of a list."""

    name: str
    info: Info


@dataclass(frozen=True)
class Connection:
    """What a connection is."""

    path: Path
    """Of host memory."""
    can_write: bool
    """False: the key allows reading only."""
    is_durable: bool
    """True: the backing holds durable commits."""
    sent_size: int
    received_size: int
    reason: str
    """Why not a better path, one line; empty for the best there is."""

    @classmethod
    def of(cls, record: dict[str, Any]) -> Connection:
        return cls(
            **{
                **record,
                "path": Path(record["path"]),
                "reason": record["reason"].decode(errors="replace"),
            }
        )


@dataclass(frozen=True)
class PathTraffic:
    """What moved by one path."""

    writes: int
    """Transfers into the pool."""
    written_size: int
    reads: int
    """Transfers out of it."""
    read_size: int


@dataclass(frozen=True)
class Traffic:
    """What a connection moved, counted on this side; what failed does not count."""

    by_path: dict[Path, PathTraffic]
    last_path: Path
    """Of the last transfer."""
    last_is_staged: bool
    staged_size: int
    """Bytes of device memory that went through a buffer of host memory."""
    maps: int
    """Views of :meth:`tanada.pool.Object.map`; who reads them how often is not known."""
    mapped_size: int

    @classmethod
    def of(cls, record: dict[str, Any]) -> Traffic:
        by_path = {
            Path(number): PathTraffic(**each) for number, each in enumerate(record["by_path"])
        }
        return cls(**{**record, "by_path": by_path, "last_path": Path(record["last_path"])})


@dataclass(frozen=True)
class Statistics:
    """Counters of the daemon."""

    client_count: int
    capacity: int
    used: int
    """With objects being written."""
    object_count: int
    """Committed, of all namespaces."""
    space_used: int
    """Of this connection's namespace, as the next two."""
    space_object_count: int
    space_quota: int
    """0: none."""
    written_size: int
    """As read_size; what clients copy themselves is as they tell, see tanada/pool.h."""
    read_size: int
    commits: int
    opens: int
    evictions: int
    errors: int
    uptime_ns: int


class RequestKind(_Choice):
    """What a request asks for."""

    PUT = 0
    GET = 1
    WRITE = 2
    READ = 3
    COMMIT = 4


@dataclass(eq=False)
class Request:
    """A request that was posted. What follows ``target`` is set when :meth:`tanada.pool.Pool.poll` returns it."""

    kind: RequestKind
    target: str | Object
    """Name of the object, or the object."""
    done: bool = False
    error: Error | None = None
    size: int = 0
    """Bytes moved; of a get, of the object."""
    version: int = 0
    """Of a put, a get, a commit."""
    path: Path = Path.NONE
    """By which the bytes went."""

    def check(self) -> None:
        """Raise the error, if there is one.

        :raises RuntimeError: it is not done.
        """
        if not self.done:
            raise RuntimeError("the request is not done; poll its pool")
        if self.error is not None:
            raise self.error
