"""The common base of objects that own a native object and are closed at the end of a ``with``."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Protocol, TypeVar

_Self = TypeVar("_Self", bound="Closing")


class _Native(Protocol):
    def close(self) -> None: ...

    def is_closed(self) -> bool: ...


class Closing:
    """Subclasses set ``_native`` and document their ``close``."""

    _native: _Native

    def close(self) -> None:
        self._native.close()

    @property
    def closed(self) -> bool:
        return self._native.is_closed()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Watched(Closing):
    """Warns if it is collected without having been closed."""

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is not None and not native.is_closed():
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
            native.close()
