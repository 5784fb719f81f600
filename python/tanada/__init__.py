"""Tanada: one-sided data for GPU clusters.

``tanada.gfile``: files read and written from inside kernels. ``tanada.pool``: objects in the memory
of a storage node, also as an fsspec file system (``tanada://``). ``tanada.stores``: what lies in a
folder of any store that kernels can open. :func:`open`: its files, for the host. Imported
separately are ``tanada.torch``: checkpoints of PyTorch in the pool, ``tanada.lmcache``: KV caches
in the pool, and ``tanada.shmem``: arrays in the device heap of OpenSHMEM. The host side works with
and without a GPU. Kernels are written in Numba (``tanada.numba``), in CuPy (``tanada.cupy``) or in
C++ with :func:`include_dir` and :func:`library_dir`.
"""

from __future__ import annotations

import pathlib

from . import gfile, pool, stores
from ._error import Error, check, status_name
from ._files import open
from ._native import version as _version

__version__: str = _version()
__all__ = [
    "Error",
    "__version__",
    "check",
    "gfile",
    "include_dir",
    "library_dir",
    "open",
    "pool",
    "status_name",
    "stores",
]

_FOLDER = pathlib.Path(__file__).resolve().parent


def include_dir() -> str:
    """Folder of the headers: ``-I`` for nvcc, NVRTC or a C++ compiler, then ``<tanada/device/gfile.cuh>``."""
    return str(_FOLDER / "include")


def library_dir() -> str:
    """Folder of libtanada: ``-L`` and ``-Wl,-rpath`` for a C or C++ program, then ``-ltanada``."""
    return str(_FOLDER / "lib")
