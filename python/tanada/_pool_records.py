"""Information from the pool as Python records. Names and meanings are those of tanada/pool.h; sizes
are bytes.
"""

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
    """Both map the pool's memory; this process copies once."""
    UNIX = 1
    """Through a UNIX socket."""
    TCP = 2
    """Through TCP."""
    RDMA = 3
    """The daemon reads and writes this process's memory over a fabric."""
    GPU_DIRECT = 4
    """Device memory: the GPU copies from and to the mapping, or RDMA accesses it."""
    FABRIC = 5
    """Like RDMA, but the provider copies in software."""
    NONE = 255
    """No bytes were transferred."""


class Checksum(_Choice):
    """Checksums of an object's bytes."""

    NONE = 0
    CRC32C = 1
    """In the low 32 bits."""
    XXH3 = 2
    """64 bits, seed 0."""


class Flags(enum.IntFlag):
    """Flags of objects."""

    EVICTABLE = 1
    """A full pool may evict it, least recently used first."""
    PINNED = 2
    """Never evicted."""
    DURABLE = 256
    """Durable in the pool's backing."""


class Info(NamedTuple):
    """A committed object. For an object being written: its current size and version 0."""

    size: int
    version: int
    """Of this commit; later commits in the pool have higher versions."""
    created_ns: int
    """Of the commit, in nanoseconds since 1970-01-01 UTC."""
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
    """One entry of a list."""

    name: str
    info: Info


class Level(NamedTuple):
    """One level of names."""

    prefixes: list[str]
    """What the names of lower levels begin with, each with the delimiter at its end."""
    entries: list[Entry]


@dataclass(frozen=True)
class Connection:
    """Properties of a connection."""

    path: Path
    """The path for host memory."""
    can_write: bool
    """False: the key permits only reading."""
    is_durable: bool
    """True: durable commits are kept in the backing."""
    sent_size: int
    received_size: int
    reason: str
    """Why there is no better path, one line; empty for the best path."""

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
    """Traffic of one path."""

    writes: int
    """Transfers into the pool."""
    written_size: int
    reads: int
    """Transfers out of it."""
    read_size: int


@dataclass(frozen=True)
class Traffic:
    """Traffic of a connection, counted on this side; failed transfers do not count."""

    by_path: dict[Path, PathTraffic]
    last_path: Path
    """Path of the last transfer."""
    last_is_staged: bool
    staged_size: int
    """Bytes of device memory that went through a host buffer."""
    maps: int
    """Mappings by :meth:`tanada.pool.Object.map`; reads of a mapping are not counted."""
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
    """Including objects being written."""
    object_count: int
    """Committed, of all namespaces."""
    space_used: int
    """Of this connection's namespace, as are the next two."""
    space_object_count: int
    space_quota: int
    """0: no quota."""
    written_size: int
    """Like read_size; bytes that clients copy themselves are counted by their reports, see
    tanada/pool.h.
    """
    read_size: int
    commits: int
    opens: int
    evictions: int
    errors: int
    uptime_ns: int


class RequestKind(_Choice):
    """The kind of a request."""

    PUT = 0
    GET = 1
    WRITE = 2
    READ = 3
    COMMIT = 4


@dataclass(eq=False)
class Request:
    """A posted request. The fields after ``target`` are set when :meth:`tanada.pool.Pool.poll`
    returns it.
    """

    kind: RequestKind
    target: str | Object
    """Name of the object, or the object."""
    done: bool = False
    error: Error | None = None
    size: int = 0
    """Bytes transferred; for a get, the object's size."""
    version: int = 0
    """Of a put, a get, or a commit."""
    path: Path = Path.NONE
    """The path that the bytes took."""

    def check(self) -> None:
        """Raise the request's error, if it has one.

        :raises RuntimeError: the request is not complete.
        """
        if not self.done:
            raise RuntimeError("the request is not done; poll its pool")
        if self.error is not None:
            raise self.error
