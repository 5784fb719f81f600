"""Files from inside Numba's kernels (numba-cuda 0.20 or newer).

::

    from tanada.numba import block, g_rdonly, url

    @cuda.jit
    def first_bytes(files, name, out, status):
        opened = block.gopen(files, name, g_rdonly)
        done = block.gread(files, opened.fd, out, 0, out.size)
        ...

    first_bytes[1, 256](session.ref, url("/data/field.f32"), out, status)

``block``, ``warp`` and ``thread`` hold the calls for a group that calls together; the names here are those of
``thread``. The device code is compiled to LTO-IR at import and inlined into each kernel.
"""

from __future__ import annotations

import os
from typing import Any

try:
    import cuda.bindings  # noqa: F401  # numba.cuda needs it
    import numba.cuda
except ImportError as missing:
    raise ImportError(
        f"tanada.numba needs numba-cuda 0.20 or newer: pip install 'numba-cuda[cu13]' ({missing})"
    ) from missing

from .. import _device
from ..gfile import encode_url

try:
    _device.oldest_architecture()
except RuntimeError as _why:
    raise ImportError(
        f"tanada.numba needs a GPU: {_why}. Without one, kernels are C++ on the host executor, against "
        "tanada.include_dir() and tanada.library_dir(); tanada.gfile works here"
    ) from None

from . import block, thread, warp
from ._calls import Calls, Found, Moved, Opened, Page
from .thread import (
    gclose,
    gfstat,
    gfsync,
    gftruncate,
    gmap,
    gopen,
    gpage_size,
    gprefetch,
    gread,
    gunlink,
    gunmap,
    gwrite,
)

g_rdonly, g_wronly, g_rdwr, g_creat, g_excl, g_trunc = 0o0, 0o1, 0o2, 0o100, 0o200, 0o1000

__all__ = [
    "Calls",
    "Found",
    "Moved",
    "Opened",
    "Page",
    "block",
    "g_creat",
    "g_excl",
    "g_rdonly",
    "g_rdwr",
    "g_trunc",
    "g_wronly",
    "gclose",
    "gfstat",
    "gfsync",
    "gftruncate",
    "gmap",
    "gopen",
    "gpage_size",
    "gprefetch",
    "gread",
    "gunlink",
    "gunmap",
    "gwrite",
    "thread",
    "url",
    "warp",
]


def url(text: str | os.PathLike[str]) -> Any:
    """A URL in device memory, as kernels take it.

    :raises ValueError: as :func:`tanada.gfile.encode_url`.
    """
    import numpy

    return numba.cuda.to_device(numpy.frombuffer(encode_url(text), dtype=numpy.uint8))
