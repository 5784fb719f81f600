"""libshmem through its C interface: the library that shmem4py uses, if that is installed."""

from __future__ import annotations

import ctypes
import enum
import errno
import importlib.util

from . import _native
from ._error import Error

THREAD_MULTIPLE = 3
HOST_INIT, KERNEL_INIT = 0x100, 0x200  # from shmemg.h


class Kind(enum.IntEnum):
    """The kind of the device heap's memory."""

    NONE = 0
    """There is no device heap."""
    HOST = 1
    """The host executor's, which host code can access: there is no GPU."""
    GUARDED = 2
    """The host executor's, inaccessible to host code (``TND_HOST_DEVICE=guarded``); for tests."""
    CUDA = 3
    """A GPU's."""


def _path() -> str:
    # A handle of shmem4py's extension finds the library with which it was linked. Loading it starts
    # nothing.
    if importlib.util.find_spec("shmem4py") is None:
        return "libshmem.so.0"
    extension = importlib.util.find_spec("shmem4py.api")
    return "libshmem.so.0" if extension is None or extension.origin is None else extension.origin


def _load() -> ctypes.CDLL:
    path = _path()
    try:
        library = ctypes.CDLL(path)
    except OSError as missing:
        raise ImportError(
            f"tanada.shmem needs libshmem, where the loader finds it (LD_LIBRARY_PATH): {missing}"
        ) from None
    if not hasattr(library, "shmemx_device_kind"):
        raise ImportError(
            f"tanada.shmem: the OpenSHMEM of {path} has no device heap: build shmem4py with Tanada's oshcc"
        )
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.shmem_init_thread.argtypes = [number, ctypes.POINTER(number)]
    library.shmem_query_initialized.argtypes = [ctypes.POINTER(number)]
    library.shmem_putmem.argtypes = [pointer, pointer, size, number]
    for name, arguments in {
        "shmemg_malloc": [size],
        "shmemg_calloc": [size, size],
        "shmemg_align": [size, size],
        "shmem_ptr": [pointer, number],
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, pointer
    library.shmemg_free.argtypes = [pointer]
    for name in (
        "shmem_finalize",
        "shmem_barrier_all",
        "shmemg_free",
        "shmem_putmem",
        "shmem_query_initialized",
    ):
        getattr(library, name).restype = None
    return library


C = _load()  # each call releases the GIL


def is_running() -> bool:
    answer = ctypes.c_int()
    C.shmem_query_initialized(ctypes.byref(answer))
    return answer.value != 0


def require_running(call: str) -> None:
    """:raises Error: TND_ESTATE: before the start or after the end, when a call of the library
    would end the process.
    """
    if not is_running():
        raise Error(
            -_native.ESTATE, f"{call}: OpenSHMEM is not running: tanada.shmem.init() comes first"
        )


def require_device(call: str) -> Kind:
    """The kind of the device heap.

    :raises Error: TND_ESTATE: the library is not running, or has no device heap.
    """
    require_running(call)
    kind = Kind(C.shmemx_device_kind())
    if kind is Kind.NONE:
        raise Error(
            -_native.ESTATE,
            f"{call}: OpenSHMEM has started without a device heap: call tanada.shmem.init() before "
            "shmem4py is imported",
        )
    return kind


_support = 0


def support() -> int:
    """SHMEM_DEVICE_*_INIT, of the last start() of this process."""
    return _support


def start(wanted: int) -> None:
    """Start the library, or add a reference to the running one, with device support
    (SHMEM_DEVICE_*_INIT) or fail.
    """
    global _support
    provided = ctypes.c_int()
    if C.shmem_init_thread(THREAD_MULTIPLE | wanted, ctypes.byref(provided)) != 0:
        raise Error(
            -errno.ENODEV, "shmem_init_thread: no start with a device heap; standard error says why"
        )
    try:
        require_device("init")
        if provided.value & wanted != wanted:
            raise Error(
                -errno.EOPNOTSUPP,
                "init: kernels have no part in this job: they were not asked for at its start, or the "
                "device cannot",
            )
    except Error:
        C.shmem_finalize()  # only for this start
        raise
    _support = provided.value & (HOST_INIT | KERNEL_INIT)
