"""Statuses of the library as exceptions."""

from __future__ import annotations

from . import _native


class Error(OSError):
    """A failed call of the library.

    ``errno`` is the positive number, Linux's below 256 and ``TND_E*`` from 4096, so that
    ``error.errno == errno.ENOENT`` works. Unlike ``OSError`` it never becomes one of its
    subclasses: catch ``tanada.Error``. ``strerror`` is the library's message, with numbers and
    units.
    """

    status: int
    """The status, negative, as in C and in kernels."""
    name: str
    """Name of the status, such as "EIO" or "TND_ENOPLUGIN"."""

    def __init__(self, status: int, message: str = "") -> None:
        self.status = status
        self.name = _native.status_name(status)
        super().__init__(-status, message or _native.status_text(status))

    def __str__(self) -> str:
        return f"{self.name}: {self.strerror}"

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return type(self), (self.status, self.strerror or "")


def check(status: int) -> None:
    """Raise :class:`Error` unless ``status`` is 0. For statuses that a kernel stored in an array."""
    if status != 0:
        raise Error(int(status))


def status_name(status: int) -> str:
    """Name of a status, such as "ENOENT" for -2; "EUNKNOWN" for an unknown number."""
    return _native.status_name(int(status))
