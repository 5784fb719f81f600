"""Folders of stores, from the host: what lies under a URL that kernels can open.

    for entry in tanada.stores.list("gfarm:///home/data"):
        print(entry.name, entry.size, entry.url)

Sizes are bytes, times are seconds. Failed calls raise ``tanada.Error``.
"""

from __future__ import annotations

import builtins
import os
from dataclasses import dataclass

from . import _native
from ._units import nanoseconds

__all__ = ["Entry", "list"]

ENTRY_COUNT_MAX = 1_000_000
"""The largest folder that :func:`list` lists by default."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder."""

    url: str
    """For ``gopen``; of a folder with "/" at its end."""
    name: str
    """The last part of the URL, without "/"."""
    is_folder: bool
    size: int | None
    """Bytes; None: a folder, a file that cannot be opened for reading, or no sizes were wanted."""


def list(
    url: str | os.PathLike[str],
    *,
    sizes: bool = True,
    entry_count_max: int = ENTRY_COUNT_MAX,
    timeout: float = 30.0,
) -> builtins.list[Entry]:
    """The files and folders in a folder, sorted by name. Folders below it are not entered.

    A folder that does not exist has no entries: not every store has folders. Of ``mem://`` and
    ``pool://``, names with "/" are shown as folders.

    :param url: a path, or scheme://...
    :param sizes: whether each file is opened for its size.
    :param entry_count_max: the call fails if there are more.
    :param timeout: seconds, of the whole call; ``math.inf``: no limit.
    :raises tanada.Error: EOVERFLOW: there are more entries; ETIMEDOUT; EINVAL: an unknown scheme;
        TND_ENOPLUGIN: the store's plugin is missing; statuses of the store.
    """
    encoded = os.fsencode(url)
    if b"\0" in encoded:
        raise ValueError(f"{url!r} contains a zero")
    if not 1 <= entry_count_max < 2**32:
        raise ValueError(f"entry_count_max is {entry_count_max}")
    found = _native.store_list(encoded, sizes, entry_count_max, nanoseconds(timeout))
    return [Entry(*entry) for entry in found]
