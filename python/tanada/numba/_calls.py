"""The device calls as Numba's device functions, for one kind of group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types
from numba.core.errors import TypingError
from numba.cuda.extending import intrinsic

from .. import _device
from .._records import Ref

Array = Any
"""An array in a kernel: device, shared or local memory, contiguous."""

INVALID = -22


class Opened(NamedTuple):
    status: int
    fd: int


class Moved(NamedTuple):
    status: int
    size: int
    """Bytes moved from the start of the range, whatever the status."""


class Found(NamedTuple):
    status: int
    size: int
    """Bytes of the file, with what the session has written so far."""


class Page(NamedTuple):
    status: int
    bytes: Any
    """Pointer to the page's first byte, in device memory: ``page.bytes[i]``."""
    size: int
    """Bytes of the file in the page; the rest of the page reads as zeros."""


class Calls(NamedTuple):
    """The calls for kernels. ``files`` is a session's ``ref``; a status is 0 or negative, equal in
    the whole group.
    """

    gopen: Callable[[Ref, Array, int], Opened]
    """gopen(files, url, flags): url is :func:`tanada.numba.url`'s."""
    gread: Callable[[Ref, int, Array, int, int], Moved]
    """gread(files, fd, buffer, offset, size): file bytes [offset, offset + size) to the start of the buffer."""
    gwrite: Callable[[Ref, int, Array, int, int], Moved]
    """gwrite(files, fd, buffer, offset, size): the start of the buffer to file bytes [offset, offset + size)."""
    gclose: Callable[[Ref, int], int]
    gfstat: Callable[[Ref, int], Found]
    gfsync: Callable[[Ref, int], int]
    gftruncate: Callable[[Ref, int, int], int]
    """gftruncate(files, fd, size)"""
    gunlink: Callable[[Ref, Array], int]
    """gunlink(files, url)"""
    gprefetch: Callable[[Ref, int, int, int], int]
    """gprefetch(files, fd, offset, size)"""
    gmap: Callable[[Ref, int, int], Page]
    """gmap(files, fd, offset): pin the page that holds the offset until gunmap."""
    gunmap: Callable[[Ref, Any], int]
    """gunmap(files, page.bytes)"""
    gpage_size: Callable[[Ref], int]


@intrinsic
def _address(context, array):  # type: ignore[no-untyped-def]
    """Address of an array's first element."""
    if not isinstance(array, types.Array) or array.layout == "A":
        raise TypingError(f"a buffer must be a contiguous array, not {array}")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(array)(context, builder, arguments[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.uint64))

    return types.uint64(array), generate


_library = cuda.LTOIR(
    _device.compile_to_ltoir("_numba.cu", _device.oldest_architecture()), name="tanada"
)


def _declared(group: str) -> dict[str, Any]:
    """The functions of _numba.cu. Sizes are signed here, because Numba converts a mixture of signed
    and unsigned to floating point.
    """
    status, fd, flags, size = types.int32, types.int32, types.int32, types.int64
    ref, address = (types.uint64, types.uint64), types.uint64
    moved = types.NamedTuple((status, size), Moved)
    page = types.NamedTuple((status, types.CPointer(types.uint8), size), Page)
    signatures = {
        "gopen": types.NamedTuple((status, fd), Opened)(*ref, address, flags),
        "gread": moved(*ref, fd, address, size, size),
        "gwrite": moved(*ref, fd, address, size, size),
        "gclose": status(*ref, fd),
        "gfstat": types.NamedTuple((status, size), Found)(*ref, fd),
        "gfsync": status(*ref, fd),
        "gftruncate": status(*ref, fd, size),
        "gunlink": status(*ref, address),
        "gprefetch": status(*ref, fd, size, size),
        "gmap": page(*ref, fd, size),
        "gunmap": status(*ref, types.CPointer(types.uint8)),
        "gpage_size": types.int32(*ref),
    }
    return {
        name: cuda.declare_device(f"tnd_numba_{group}_{name}", signature, link=_library)
        for name, signature in signatures.items()
    }


def calls_of(group: str) -> Calls:
    """The calls for "thread", "warp" or "block"."""
    extern = _declared(group)
    extern_gopen, extern_gread, extern_gwrite = extern["gopen"], extern["gread"], extern["gwrite"]
    extern_gclose, extern_gfstat, extern_gfsync = (
        extern["gclose"],
        extern["gfstat"],
        extern["gfsync"],
    )
    extern_gftruncate, extern_gunlink = extern["gftruncate"], extern["gunlink"]
    extern_gprefetch, extern_gpage_size = extern["gprefetch"], extern["gpage_size"]
    extern_gmap, extern_gunmap = extern["gmap"], extern["gunmap"]

    def gopen(files, url, flags):  # type: ignore[no-untyped-def]
        return extern_gopen(files.state, files.timeout_ns, _address(url), flags)

    # A check beyond those of C++: a kernel in Python does not write past an array.
    def gread(files, fd, buffer, offset, size):  # type: ignore[no-untyped-def]
        if not 0 <= np.int64(size) <= buffer.nbytes:
            return Moved(np.int32(INVALID), np.int64(0))  # type: ignore[arg-type]
        return extern_gread(files.state, files.timeout_ns, fd, _address(buffer), offset, size)

    def gwrite(files, fd, buffer, offset, size):  # type: ignore[no-untyped-def]
        if not 0 <= np.int64(size) <= buffer.nbytes:
            return Moved(np.int32(INVALID), np.int64(0))  # type: ignore[arg-type]
        return extern_gwrite(files.state, files.timeout_ns, fd, _address(buffer), offset, size)

    def gclose(files, fd):  # type: ignore[no-untyped-def]
        return extern_gclose(files.state, files.timeout_ns, fd)

    def gfstat(files, fd):  # type: ignore[no-untyped-def]
        return extern_gfstat(files.state, files.timeout_ns, fd)

    def gfsync(files, fd):  # type: ignore[no-untyped-def]
        return extern_gfsync(files.state, files.timeout_ns, fd)

    def gftruncate(files, fd, size):  # type: ignore[no-untyped-def]
        return extern_gftruncate(files.state, files.timeout_ns, fd, size)

    def gunlink(files, url):  # type: ignore[no-untyped-def]
        return extern_gunlink(files.state, files.timeout_ns, _address(url))

    def gprefetch(files, fd, offset, size):  # type: ignore[no-untyped-def]
        return extern_gprefetch(files.state, files.timeout_ns, fd, offset, size)

    def gmap(files, fd, offset):  # type: ignore[no-untyped-def]
        return extern_gmap(files.state, files.timeout_ns, fd, offset)

    def gunmap(files, bytes):  # type: ignore[no-untyped-def]
        return extern_gunmap(files.state, files.timeout_ns, bytes)

    def gpage_size(files):  # type: ignore[no-untyped-def]
        return extern_gpage_size(files.state, files.timeout_ns)

    functions = (
        gopen,
        gread,
        gwrite,
        gclose,
        gfstat,
        gfsync,
        gftruncate,
        gunlink,
        gprefetch,
        gmap,
        gunmap,
        gpage_size,
    )
    return Calls(*(cuda.jit(device=True)(function) for function in functions))
