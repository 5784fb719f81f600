"""Information from the library as Python records. Counts are pages unless a name means bytes
(``_size``).
"""

from __future__ import annotations

import enum
import os
import struct
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy
    from typing_extensions import Self


class Ref(NamedTuple):
    """The reference to a session that kernels get: two numbers, by value.

    A Numba kernel takes it directly. C++ takes ``tanada::gfile_ref``, which has the same layout:
    :meth:`as_array` provides it for CuPy, and ``bytes(ref)`` for other libraries.
    """

    state: int
    """Address in device memory."""
    timeout_ns: int
    """Time limit of each call of a kernel."""

    def as_array(self) -> numpy.ndarray[Any, Any]:
        """A NumPy array of no dimensions, which CuPy passes to a kernel by value."""
        import numpy

        return numpy.array(tuple(self), dtype=[("state", "u8"), ("timeout_ns", "u8")])

    def __bytes__(self) -> bytes:
        return struct.pack("=QQ", self.state, self.timeout_ns)


class _Choice(enum.IntEnum):
    """A number of the C ABI with a name. :meth:`of` accepts either, in lower case as the
    environment does.
    """

    @classmethod
    def of(cls, value: int | str) -> Self:
        if not isinstance(value, str):
            return cls(value)
        try:
            return cls[value.upper()]
        except KeyError:
            raise ValueError(
                f"{value!r} is none of {', '.join(each.name.lower() for each in cls)}"
            ) from None


class Replacement(_Choice):
    """The page that is evicted from a full cache; the first is the original policy, by Matsumiya et
    al.
    """

    FIFO = 0
    LRU = 1
    CLOCK = 2


class Device(_Choice):
    """Where kernels run."""

    AUTO = 0
    HOST = 1
    CUDA = 2


class Direct(_Choice):
    """Whether stores may place bytes directly in device memory."""

    AUTO = 0
    ON = 1
    OFF = 2


class Mapping(_Choice):
    """Whether kernels may read the pages of memory-backed files in place."""

    AUTO = 0
    OFF = 1


class Path(_Choice):
    """How uncached bytes of a file reach the device."""

    STAGED = 0
    """Store to host memory; kernels copy from there."""
    MAPPED = 1
    """Kernels read the file's own pages in host memory."""
    DIRECT = 2
    """The store places them in device memory; no processor copies."""
    DIRECT_COMPATIBLE = 3
    """The same calls, but a processor copies (cuFile's compatibility mode)."""


class Site(_Choice):
    """Which call of a kernel a fault came from."""

    NONE = 0
    OPEN = 1
    READ = 2
    WRITE = 3
    CLOSE = 4
    STAT = 5
    UNLINK = 6
    TRUNCATE = 7
    SYNC = 8
    PREFETCH = 9
    MAP = 10


@dataclass(frozen=True)
class Statistics:
    """Counters of a session; each only grows."""

    is_cuda: bool
    """True: kernels run on a GPU; False: on the host executor."""
    device_hits: int
    """Pages found in the device cache."""
    host_hits: int
    """Pages kernels copied from the host cache with no CPU in the path."""
    misses: int
    """Pages asked for from the host."""
    uncached_transfers: int
    """Pages that passed the device cache by because every frame was in use."""
    store_reads: int
    """Read operations sent to stores."""
    store_read_size: int
    """Bytes."""
    store_writes: int
    """Write operations sent to stores."""
    store_write_size: int
    """Bytes."""
    requests: int
    """Requests from kernels served."""
    evictions: int
    """Pages dropped from the host cache to make room."""
    write_errors: int
    """Write-backs that failed for good."""
    mapped_copies: int
    """Pages kernels copied from a mapped file with no CPU in the path."""
    direct_copies: int
    """Pages that a store placed in device memory itself."""
    device_evictions: int
    """Pages dropped from the device cache to make room."""
    read_size: int
    """Bytes returned by gread."""
    write_size: int
    """Bytes accepted by gwrite."""
    rpc_latency: tuple[int, ...]
    """[i]: misses served within 2**i to 2**(i+1) ns, as measured in kernels."""


@dataclass(frozen=True)
class File:
    """A file that is open, or kept for its cached pages."""

    url: str
    path: Path
    reason: str
    """Why there is no better path, one line; empty for the best path."""
    size: int
    """Bytes."""
    opens: int
    """Opens at the host; groups of a kernel that share a descriptor count once. Both 0: the file is
    only kept for its pages.
    """
    write_opens: int
    device_hits: int
    host_hits: int
    mapped_copies: int
    direct_copies: int
    misses: int
    read_size: int
    """Bytes returned by gread."""
    write_size: int
    """Bytes accepted by gwrite."""

    @classmethod
    def of(cls, record: dict[str, Any]) -> File:
        numbers = {
            each.name: record[each.name]
            for each in fields(cls)
            if each.name not in ("url", "path", "reason")
        }
        return cls(
            url=os.fsdecode(record["url"]),
            path=Path(record["path"]),
            reason=record["reason"].decode(errors="replace"),
            **numbers,
        )


@dataclass(frozen=True)
class Fault:
    """The first call of a kernel that failed."""

    status: int
    """Negative, as in C and in kernels; ``tanada.status_name`` has its name."""
    site: Site
    thread: int
    """Rank in its block."""
    block: int
    """Rank in its grid."""
    words: tuple[int, int]
    """Descriptor and offset, if the call has them."""
    url: str
    """URL of the file; empty if the descriptor was not open."""

    @classmethod
    def of(cls, record: dict[str, Any]) -> Fault:
        return cls(**{**record, "site": Site(record["site"]), "url": os.fsdecode(record["url"])})
