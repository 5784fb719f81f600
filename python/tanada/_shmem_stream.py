"""Calls ordered with a stream's kernels, on arrays of the device heap."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import pathlib
from typing import Any

import numpy

from ._error import Error
from ._shmem_array import Array, Piece, array_at
from ._shmem_library import KERNEL_INIT, Kind, require_device, support
from ._units import nanoseconds


@functools.cache
def _library(kind: Kind) -> ctypes.CDLL:
    # Loading it registers its kernels with libshmem, so load it only after the job has chosen a
    # device.
    file = f"libtanada_shmem_stream_{kind.name.lower()}.so"
    folders = [
        pathlib.Path(folder)
        for folder in os.environ.get("TND_PLUGIN_PATH", "").split(":")
        if folder
    ]
    folders.append(pathlib.Path(__file__).resolve().parent / "lib/tanada")
    for folder in folders:
        if (folder / file).exists():
            library = ctypes.CDLL(str(folder / file))
            break
    else:
        raise Error(
            -errno.EOPNOTSUPP,
            f"{file} is in none of {', '.join(map(str, folders))}: this package was built without it",
        )
    pointer, size, number, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64
    for name, arguments in {
        "put": [pointer, pointer, size, number],
        "get": [pointer, pointer, size, number],
        "put_signal": [pointer, pointer, size, pointer, word, number, number],
        "signal": [pointer, word, number, number],
        "wait": [pointer, number, word],
        "quiet": [],
        "barrier": [],
    }.items():
        getattr(library, f"tnd_shmem_{name}_on_stream").argtypes = [*arguments, pointer]
    library.tnd_shmem_wait_for_stream.argtypes = [pointer, word]
    return library


def _ready(call: str) -> ctypes.CDLL:
    kind = require_device(call)
    if support() & KERNEL_INIT == 0:
        raise Error(
            -errno.EOPNOTSUPP,
            f"{call}: kernels have no part in this job: start it with tanada.shmem.init(kernels=True)",
        )
    if kind is Kind.GUARDED:
        raise Error(
            -errno.EOPNOTSUPP, f"{call}: kernels do not reach the host executor's guarded memory"
        )
    return _library(kind)


def _handle(stream: Any) -> int:
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "ptr"):  # CuPy's
        return int(stream.ptr)
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    handle = getattr(stream, "handle", None)  # Numba's
    if handle is None:
        raise TypeError(
            f"{type(stream).__name__} is no stream: a number, one of CuPy or Numba, or with __cuda_stream__"
        )
    return int(getattr(handle, "value", handle) or 0)


def _seen(call: str, a: Any, is_word: bool = False) -> Array:
    # The array's own stream is not waited for: this stream's order replaces that.
    if isinstance(a, numpy.ndarray):
        piece = getattr(a, "piece", None)
        if isinstance(piece, Piece):
            piece.require(call)
        made: Array = a
    else:
        told = getattr(a, "__cuda_array_interface__", None)
        if told is None:
            raise TypeError(
                f"{call}: {type(a).__name__} is no array of NumPy, and has no __cuda_array_interface__"
            )
        made = array_at(
            told["data"][0], told["shape"], numpy.dtype(told["typestr"]), told.get("strides"), a
        )
    if not (made.flags.c_contiguous or made.flags.f_contiguous):
        raise ValueError(f"{call}: an array that is not contiguous")
    if is_word and (made.size != 1 or made.dtype != numpy.uint64):
        raise TypeError(f"{call}: {made.size} elements of {made.dtype}; a signal is one of uint64")
    return made


def _pair(call: str, target: Any, source: Any) -> tuple[int, int, int]:
    into, of = _seen(call, target), _seen(call, source)
    if into.nbytes < of.nbytes:
        raise ValueError(f"{call}: {of.nbytes} bytes do not fit {into.nbytes}")
    return into.ctypes.data, of.ctypes.data, of.nbytes


def _queued(call: str, code: int) -> None:
    if code != 0:
        raise Error(-errno.EIO, f"{call}: CUDA refuses the launch, error {code}")


def put_on_stream(target: Any, source: Any, pe: int, stream: Any = None) -> None:
    """Queue a copy of ``source`` to ``target`` at a PE. The bytes are there after
    :func:`quiet_on_stream`.

    All these calls return immediately; the operation begins when earlier work of the stream has
    ended. Arrays are device memory, and must stay allocated until then.

    :param stream: of CuPy, Numba or ``cuda.core``, or its handle; None: the default stream. The
        host executor has one stream.
    :raises tanada.Error: EOPNOTSUPP: the job was not started by ``init(kernels=True)``; EIO: CUDA
        refuses the launch.
    """
    library = _ready("put_on_stream")
    _queued(
        "put_on_stream",
        library.tnd_shmem_put_on_stream(
            *_pair("put_on_stream", target, source), pe, _handle(stream)
        ),
    )


def get_on_stream(target: Any, source: Any, pe: int, stream: Any = None) -> None:
    """Queue a copy of ``source`` at a PE to ``target``; later work of the stream finds the bytes."""
    library = _ready("get_on_stream")
    _queued(
        "get_on_stream",
        library.tnd_shmem_get_on_stream(
            *_pair("get_on_stream", target, source), pe, _handle(stream)
        ),
    )


def put_signal_on_stream(
    target: Any, source: Any, pe: int, signal: Any, value: int, operation: int, stream: Any = None
) -> None:
    """:func:`put_on_stream`, then an update of the PE's ``signal``, an array of one uint64;
    ``operation``: shmem4py's ``SIGNAL``.
    """
    library, word = _ready("put_signal_on_stream"), _seen("put_signal_on_stream", signal, True)
    _queued(
        "put_signal_on_stream",
        library.tnd_shmem_put_signal_on_stream(
            *_pair("put_signal_on_stream", target, source),
            word.ctypes.data,
            value,
            operation,
            pe,
            _handle(stream),
        ),
    )


def signal_on_stream(signal: Any, value: int, operation: int, pe: int, stream: Any = None) -> None:
    """Queue an update of a PE's signal, after all earlier puts of the stream."""
    library, word = _ready("signal_on_stream"), _seen("signal_on_stream", signal, True)
    _queued(
        "signal_on_stream",
        library.tnd_shmem_signal_on_stream(word.ctypes.data, value, operation, pe, _handle(stream)),
    )


def signal_wait_on_stream(signal: Any, comparison: int, value: int, stream: Any = None) -> None:
    """Make the stream wait until this PE's signal satisfies the comparison; ``comparison``:
    shmem4py's ``CMP``.
    """
    library, word = _ready("signal_wait_on_stream"), _seen("signal_wait_on_stream", signal, True)
    _queued(
        "signal_wait_on_stream",
        library.tnd_shmem_wait_on_stream(word.ctypes.data, comparison, value, _handle(stream)),
    )


def quiet_on_stream(stream: Any = None) -> None:
    """Later work of the stream begins when all puts of the stream are complete."""
    _queued("quiet_on_stream", _ready("quiet_on_stream").tnd_shmem_quiet_on_stream(_handle(stream)))


def barrier_all_on_stream(stream: Any = None) -> None:
    """Later work begins when the streams of all PEs have reached theirs; includes a quiet."""
    _queued(
        "barrier_all_on_stream",
        _ready("barrier_all_on_stream").tnd_shmem_barrier_on_stream(_handle(stream)),
    )


def synchronize(stream: Any = None, timeout: float = 30.0) -> None:
    """Wait for the work of a stream, as CuPy's ``synchronize`` does; also without a GPU.

    :param timeout: seconds; only for kernels of the host executor. Kernels of a GPU are waited for
        without a limit.
    :raises tanada.Error: ETIMEDOUT.
    """
    library = _ready("synchronize")
    code = library.tnd_shmem_wait_for_stream(_handle(stream), nanoseconds(timeout))
    if code != 0 and require_device("synchronize") is Kind.CUDA:
        raise Error(-errno.EIO, f"synchronize: CUDA's error {code}")
    if code != 0:
        raise Error(-errno.ETIMEDOUT, "synchronize: kernels are still at work")
