"""The programs in the package: ``tanada`` and ``tanada-poold``."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn


def path(name: str) -> pathlib.Path:
    """The path of a program of the package.

    :raises FileNotFoundError: the package was built without it.
    """
    program = pathlib.Path(__file__).parent / "bin" / name
    if not program.exists():
        raise FileNotFoundError(f"{program} is missing: this package was built without it")
    return program


def _become(name: str) -> NoReturn:
    program = path(name)
    os.execv(program, [name, *sys.argv[1:]])


def tanada() -> NoReturn:
    """The console script ``tanada``."""
    _become("tanada")


def tanada_poold() -> NoReturn:
    """The console script ``tanada-poold``."""
    _become("tanada-poold")
