"""Files from inside kernels: the host side.

A :func:`session` holds caches in device and host memory and the threads that serve kernels. Kernels get its ``ref``::

    with tanada.gfile.session(device_tier_size="64MiB") as files:
        kernel[blocks, threads](files.ref, ...)
        files.wait(30)
        print(files.statistics())

Host code does not read or write the files of a store: kernels do. Sizes are bytes, or text such as "64MiB"; times are
seconds. Failed calls raise ``tanada.Error``.
"""

from __future__ import annotations

import operator
import os
from typing import Any

from . import _native
from ._closing import Watched
from ._error import Error
from ._records import Device, Direct, Fault, File, Mapping, Path, Ref, Replacement, Site, Statistics
from ._units import nanoseconds, number_of_bytes

__all__ = [
    "Device",
    "Direct",
    "Fault",
    "File",
    "Mapping",
    "Path",
    "Ref",
    "Replacement",
    "Session",
    "Site",
    "Statistics",
    "encode_url",
    "gfinalize",
    "ghandle",
    "ginitialize",
    "session",
]

URL_SIZE_MAX = 1023
"""Longest URL, bytes."""
WAIT_TIMEOUT = 3600.0
"""The time limit of :func:`ghandle` in seconds, unless :func:`ginitialize` sets another."""
_NUMBER_MAX = 2**64 - 1


class Session(Watched):
    """An instance of gfile, created by :func:`session` or :func:`ginitialize`.

    Any thread may call every method, also while kernels run. Other Python threads run meanwhile.
    """

    def __init__(self, native: _native.Session) -> None:
        self._native: _native.Session = native

    @property
    def ref(self) -> Ref:
        """The reference for kernels, passed by value. Valid until :meth:`close`."""
        return Ref(*self._native.ref())

    def wait(self, timeout: float = 30.0) -> None:
        """Wait for the kernels launched so far in this process on the session's device.

        :param timeout: seconds; ``math.inf``: no limit. Ctrl-C ends the wait; the kernels continue.
        :raises tanada.Error: ETIMEDOUT: the kernels still run, and nothing changed; TND_EDEVICE: a
            kernel trapped; otherwise the first write-back error that no gfsync or gclose has
            returned, once.
        """
        self._native.wait(nanoseconds(timeout))

    def statistics(self) -> Statistics:
        """The current counters; they never decrease."""
        return Statistics(**self._native.statistics())

    def files(self) -> list[File]:
        """The open or cached files, and the path of each file's bytes."""
        return [File.of(record) for record in self._native.files()]

    def fault(self) -> Fault | None:
        """The first failed call of a kernel; None: no call has failed."""
        record = self._native.fault()
        return None if record["status"] == 0 else Fault.of(record)

    def close(self) -> None:
        """Wait for the kernels, write back dirty pages, close every file and free the caches. No-op
        if closed.

        Each of the three takes at most the session's timeout.

        :raises tanada.Error: ETIMEDOUT: kernels or a store did not finish, and the session is
            closed; EBUSY: a :meth:`wait` runs in another thread, and the session stays open;
            otherwise the first write-back error that was not reported before.
        """
        self._native.close()

    def __repr__(self) -> str:
        return f"<tanada.gfile.Session {'closed' if self.closed else 'open'} at {id(self):#x}>"


def session(
    *,
    page_size: int | str | None = None,
    device_tier_size: int | str | None = None,
    host_tier_size: int | str | None = None,
    replacement: Replacement | str | None = None,
    service_threads: int | None = None,
    timeout: float | None = None,
    file_count_max: int | None = None,
    device: Device | str | None = None,
    device_index: int | None = None,
    direct: Direct | str | None = None,
    direct_window_size: int | str | None = None,
    mapping: Mapping | str | None = None,
    mapping_size_max: int | str | None = None,
    wait_timeout: float | None = None,
) -> Session:
    """Create an instance with its caches and threads. Close it, preferably by ``with``.

    Arguments left at None have the library's defaults. A variable of the environment
    (``TND_GFILE_PAGE_SIZE``, ...) overrides the argument; docs/gfile.md lists them with the defaults.

    :param page_size: bytes; a power of two, 4 KiB to 2 MiB.
    :param device_tier_size: bytes of device memory; one page at least.
    :param host_tier_size: bytes of pinned host memory; one page at least.
    :param replacement: "fifo", "lru" or "clock".
    :param service_threads: 1 to 64; 0: chosen by the number of processors.
    :param timeout: seconds; limit of each call of a kernel and of :meth:`Session.close`; ``math.inf``: none.
    :param file_count_max: files open or cached at a time, 1 to 16384.
    :param device: "auto", "host" (the host executor) or "cuda" (a GPU, or fail).
    :param device_index: index of the GPU.
    :param direct: whether stores may place bytes directly in device memory: "auto", "on" or "off".
    :param direct_window_size: bytes of device memory for that.
    :param mapping: whether kernels may read the pages of memory-backed files in place: "auto" or "off".
    :param mapping_size_max: bytes of files mapped at a time; 0: half of the memory.
    :param wait_timeout: seconds; limit of :func:`ghandle`; ``math.inf``: none.
    :raises tanada.Error: EINVAL: a value is out of range; the message names it; ENOMEM: a cache does not fit;
        ENODEV, TND_ENOPLUGIN: a GPU was requested and is not available; the message has the reason.
    :raises ValueError: an invalid size or choice.
    """
    return Session(_native.Session(False, _settings(locals())))


def ginitialize(**settings: Any) -> Session:
    """The process's instance, for device calls without a ``ref``. The settings are those of
    :func:`session`.

    :returns: the instance, for queries; :func:`gfinalize` closes it.
    :raises tanada.Error: as :func:`session`; EBUSY: it exists already.
    """
    unknown = set(settings) - set(session.__kwdefaults__ or ())
    if unknown:
        raise TypeError(f"ginitialize() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    global _process_session, _wait_timeout
    _process_session = Session(_native.Session(True, _settings(settings)))
    _wait_timeout = settings.get("wait_timeout") or WAIT_TIMEOUT
    return _process_session


def ghandle() -> None:
    """Wait for the kernels launched so far; errors as :meth:`Session.wait`.

    :raises tanada.Error: TND_ESTATE: :func:`ginitialize` has not been called; ETIMEDOUT: kernels
        still run after the ``wait_timeout`` of :func:`ginitialize`, by default an hour.
    """
    _of_process().wait(_wait_timeout)


def gfinalize() -> None:
    """End the process's instance; errors as :meth:`Session.close`.

    :raises tanada.Error: TND_ESTATE: :func:`ginitialize` has not been called.
    """
    _of_process().close()


def encode_url(url: str | os.PathLike[str]) -> bytes:
    """A URL as kernels take it: bytes with a zero at the end.

    :raises ValueError: empty, longer than 1,023 bytes, or with a zero inside.
    """
    encoded = os.fsencode(url)
    if not 0 < len(encoded) <= URL_SIZE_MAX or b"\0" in encoded:
        raise ValueError(f"a URL has 1 to {URL_SIZE_MAX} bytes and no zero: {url!r}")
    return encoded + b"\0"


_process_session: Session | None = None
_wait_timeout = WAIT_TIMEOUT


def _of_process() -> Session:
    if _process_session is None or _process_session.closed:
        raise Error(-_native.ESTATE, "ginitialize has not been called")
    return _process_session


def _settings(given: dict[str, Any]) -> dict[str, int]:
    """The given fields of tnd_gfile_config, as numbers."""
    choices = {"replacement": Replacement, "device": Device, "direct": Direct, "mapping": Mapping}
    fields: dict[str, int] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in ("timeout", "wait_timeout"):
            fields[f"{name}_ns"] = nanoseconds(value)
        elif name in choices:
            fields[name] = choices[name].of(value)
        elif name == "page_size" or name.endswith(("_size", "_size_max")):
            fields[name] = number_of_bytes(value)
        else:
            fields[name] = operator.index(value)
            if fields[name] < 0:
                raise ValueError(f"{name} is {value}")
    # A value that does not fit becomes the largest number, which the library refuses with a message
    # that names the field.
    return {name: min(value, _NUMBER_MAX) for name, value in fields.items()}
