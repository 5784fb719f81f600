"""Files from inside CuPy's raw kernels, which are C++ compiled by NVRTC.

::

    module = cupy.RawModule(code=source, options=tanada.cupy.options())
    kernel = module.get_function("first_bytes")
    kernel((1,), (256,), (session.ref.as_array(), tanada.cupy.url("/data/field.f32"), out))

The source includes <tanada/device/gfile.cuh>; ``session.ref.as_array()`` arrives as a ``tanada::gfile_ref``. For
calls without a ``gfile_ref``, :func:`bind` sets their session.
"""

from __future__ import annotations

import os
from typing import Any

try:
    import cupy
except ImportError as missing:
    raise ImportError(f"tanada.cupy needs CuPy: pip install cupy-cuda13x ({missing})") from missing

import numpy

from .gfile import Session, encode_url

__all__ = ["bind", "options", "url"]


def options() -> tuple[str, ...]:
    """Options of ``cupy.RawModule`` that find the device headers."""
    from . import include_dir

    return ("-std=c++17", "-I" + include_dir())


def bind(module: Any, session: Session | None) -> None:
    """Sets the session for calls without a ``gfile_ref`` in a ``cupy.RawModule``, on the current
    device.

    :param session: None: no session; the calls then return bad_state.
    """
    value = numpy.zeros((), dtype="u8,u8") if session is None else session.ref.as_array()
    target = module.get_global("tnd_gfile_module_ref")
    target.copy_from_host(value.ctypes.data, value.nbytes)


def url(text: str | os.PathLike[str]) -> Any:
    """A URL in device memory, as kernels take it: a ``const char *``.

    :raises ValueError: as :func:`tanada.gfile.encode_url`.
    """
    return cupy.frombuffer(encode_url(text), dtype=numpy.uint8)
