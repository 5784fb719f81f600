"""Arrays in the symmetric heap of devices, for shmem4py, CuPy and Numba.

``init()`` starts OpenSHMEM with a heap in the memory of each PE's GPU; shmem4py, imported after it,
uses the same library. shmem4py's calls take arrays allocated here as NumPy arrays. If the device
heap is a GPU's, CuPy and Numba see the same bytes by ``__cuda_array_interface__``. Without a GPU it
is host memory, and the arrays are NumPy's own.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy

from . import _cuda
from ._error import Error
from ._shmem_array import Array, CudaArray, DeviceArray, Piece, array_at
from ._shmem_library import (
    HOST_INIT,
    KERNEL_INIT,
    C,
    Kind,
    is_running,
    require_device,
    require_running,
    start,
)
from ._shmem_stream import (
    barrier_all_on_stream,
    get_on_stream,
    put_on_stream,
    put_signal_on_stream,
    quiet_on_stream,
    signal_on_stream,
    signal_wait_on_stream,
    synchronize,
)

__all__ = [
    "CudaArray",
    "DeviceArray",
    "Kind",
    "array",
    "barrier_all_on_stream",
    "buffer",
    "empty",
    "finalize",
    "free",
    "full",
    "get_on_stream",
    "init",
    "kind",
    "ptr",
    "put_on_stream",
    "put_signal_on_stream",
    "quiet_on_stream",
    "signal",
    "signal_on_stream",
    "signal_wait_on_stream",
    "synchronize",
    "zeros",
]

_pieces: dict[int, Piece] = {}  # by address


def init(*, kernels: bool = False) -> None:
    """Start OpenSHMEM with a device heap. Collective, before ``from shmem4py import shmem``.

    The device is the current GPU of this thread (``cupy.cuda.Device(n).use()``), else the one with
    the PE's number on its node; it is current afterwards. A further call adds a start, as
    ``shmem_init`` does, to be matched by :func:`finalize`.

    :param kernels: kernels call ``shmemg_*``, including calls on streams; equal in all PEs.
    :raises tanada.Error: TND_ESTATE: OpenSHMEM runs without a device heap; EOPNOTSUPP: it runs
        without support for kernels; ENODEV: the start failed.
    """
    if not is_running():
        _forget("lost with OpenSHMEM, which ended")  # by a finalize of another caller
    start(HOST_INIT | (KERNEL_INIT if kernels else 0))


def finalize() -> None:
    """Undo one :func:`init`; collective. Not needed at the end of a program.

    After the last start has ended, shmem4py's included, all arrays of the device heap are invalid.

    :raises tanada.Error: TND_ESTATE: it is not running.
    """
    require_running("finalize")
    C.shmem_finalize()
    if not is_running():
        _forget("lost with OpenSHMEM, which ended")


def kind() -> Kind:
    """The kind of the device heap's memory; also ``Kind.NONE`` if OpenSHMEM is not running."""
    return Kind(C.shmemx_device_kind()) if is_running() else Kind.NONE


def empty(
    shape: int | Sequence[int],
    dtype: Any = float,
    order: Literal["C", "F"] = "C",
    *,
    align: int | None = None,
) -> Array:
    """An array in the device heap, contents undefined. Collective, with equal arguments in all PEs;
    freed only by :func:`free`.

    :param align: bytes, a power of two; default: 512.
    :returns: NumPy's own array if the heap is host memory; a :class:`CudaArray` if it is a GPU's.
    :raises MemoryError: in all PEs: the heap has insufficient memory.
    :raises tanada.Error: TND_ESTATE: there is no device heap.
    """
    return _new(shape, dtype, order, align, is_cleared=False)


def zeros(shape: int | Sequence[int], dtype: Any = float, order: Literal["C", "F"] = "C") -> Array:
    """:func:`empty`, of zeros."""
    return _new(shape, dtype, order, None, is_cleared=True)


def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: Any = None,
    order: Literal["C", "F"] = "C",
    *,
    align: int | None = None,
) -> Array:
    """:func:`empty`, of one value, which may differ between PEs; all PEs' arrays are filled on return."""
    return array(numpy.full(shape, fill_value, dtype, order), align=align)


def array(source: Any, dtype: Any = None, *, align: int | None = None) -> Array:
    """:func:`empty`, with the values of anything that NumPy can convert to an array; all PEs'
    arrays are filled on return.

    Shapes and types are equal in all PEs; values may differ.
    """
    given = numpy.asarray(source, dtype)
    given = (
        given if given.flags.f_contiguous else numpy.ascontiguousarray(given).reshape(given.shape)
    )
    made = _new(
        given.shape, given.dtype, "C" if given.flags.c_contiguous else "F", align, is_cleared=False
    )
    C.shmem_putmem(_address(made), _address(given), given.nbytes, C.shmem_my_pe())
    C.shmem_barrier_all()
    return made


def free(a: Any) -> None:
    """Free an array of :func:`empty` or the others: the array itself, or one of any library with
    the same beginning. Collective.

    :raises tanada.Error: EINVAL: no array of the device heap begins there; TND_ESTATE: it was freed
        before, or nothing is running.
    """
    require_running("free")
    known = getattr(a, "piece", None)
    if known is not None:
        known.require("free")
    address = _address(buffer(a))
    piece = _pieces.pop(address, None)
    if piece is None:
        raise Error(
            -errno.EINVAL,
            f"free: no array of the device heap begins at {address:#x}; was it freed before?",
        )
    piece.gone = "freed"
    C.shmemg_free(address)


def ptr(a: Any, pe: int) -> Array | None:
    """A PE's array that corresponds to ``a``, or to a part of it, for loads and stores; if the
    device is a GPU, only by kernels.

    :returns: None if this PE's device cannot access it.
    :raises tanada.Error: TND_ESTATE: it was freed.
    """
    require_device("ptr")
    mine = buffer(a)
    piece = getattr(mine, "piece", None)
    if piece is not None:
        piece.require("ptr")
    address = C.shmem_ptr(_address(mine), pe)
    return (
        None
        if address is None
        else _shown(array_at(address, mine.shape, mine.dtype, mine.strides, mine), piece)
    )


def buffer(a: Any) -> Array:
    """An array of CuPy, Numba or PyTorch in the form that shmem4py's calls take, in the device heap
    or not; NumPy arrays are returned unchanged.

    Waits for the work on the array's stream, since calls of the host are not ordered with any
    stream.

    :raises TypeError: it has no ``__cuda_array_interface__``.
    """
    if isinstance(a, numpy.ndarray):
        return a
    told = getattr(a, "__cuda_array_interface__", None)
    if told is None or told.get("mask") is not None:
        raise TypeError(
            f"{type(a).__name__} is no array of NumPy, and has no __cuda_array_interface__ without a mask"
        )
    stream = told.get("stream")
    if stream is None and kind() is Kind.CUDA:
        stream = 1  # copies from pageable memory may still be in progress after their return, and
        # Numba's name no stream
    if stream is not None:
        _cuda.synchronize(stream, -1)
    address, is_read_only = told["data"]
    made = array_at(address, told["shape"], numpy.dtype(told["typestr"]), told.get("strides"), a)
    made.flags.writeable = not is_read_only
    return CudaArray.over(made, None)


def signal(a: Any) -> Any:
    """A signal for shmem4py's calls, from an array of one uint64 in the device heap. It must not be
    deleted.
    """
    from shmem4py.api import ffi  # type: ignore[import-not-found, import-untyped, unused-ignore]

    require_device("signal")
    word = buffer(a)
    if word.size != 1 or word.dtype != numpy.uint64:
        raise TypeError(f"signal: {word.size} elements of {word.dtype}; a signal is one of uint64")
    return ffi.cast("uint64_t *", _address(word))


def _new(
    shape: int | Sequence[int], dtype: Any, order: str, align: int | None, *, is_cleared: bool
) -> Array:
    require_device("empty")
    kept = numpy.dtype(dtype)
    if kept.hasobject or kept.itemsize == 0:
        raise TypeError(
            f"{kept}: elements are bytes, of a number that is known, and no Python's objects"
        )
    if align is not None and (align <= 0 or align & (align - 1)):
        raise ValueError(f"align={align} is no power of two")
    extents = (shape,) if isinstance(shape, (int, numpy.integer)) else tuple(shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape={shape}: an extent below 0")
    # an empty block would have no address
    size = max(math.prod(map(int, extents)) * kept.itemsize, 1)
    if align is not None:
        address = C.shmemg_align(align, size)
    else:
        address = C.shmemg_calloc(size, 1) if is_cleared else C.shmemg_malloc(size)
    if address is None:
        raise MemoryError(
            f"the device heap has no piece of {size} bytes: SHMEM_DEVICE_SYMMETRIC_SIZE is what it has"
        )
    piece = _pieces[address] = Piece(address, size)
    flat = array_at(address, (math.prod(map(int, extents)),), kept, None, piece)
    return _shown(flat.reshape(extents, order=order), piece)  # type: ignore[call-overload]


def _shown(flat: Array, piece: Piece | None) -> Array:
    # An array of the class for the memory's kind.
    of = Kind(C.shmemx_device_kind())
    return (
        flat
        if of is Kind.HOST
        else (CudaArray if of is Kind.CUDA else DeviceArray).over(flat, piece)
    )


def _address(a: Array) -> int:
    return int(a.ctypes.data)


def _forget(how: str) -> None:
    for piece in _pieces.values():
        piece.gone = how
    _pieces.clear()
