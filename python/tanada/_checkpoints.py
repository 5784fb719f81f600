"""Checkpoints as objects of a pool: their names, their order and their removal.

A checkpoint NAME is the object ``NAME/.metadata`` and the objects ``NAME/SAVE/RANK.PART`` that it
refers to, all committed by one set. SAVE is unique, so a save never writes the objects of another
one, and the metadata are what makes a save the checkpoint.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import pool
from ._error import Error

SCHEME = "pool://"
METADATA = ".metadata"
FORMAT = 1
_HEADER_SIZE_MAX = 4096
_PART = re.compile(r"(?P<save>[0-9a-f]{32})/\d+\.\d+")


class Connection(pool.Pool):
    """A connection that ends with its last reference, so that PyTorch need not close it."""

    def __del__(self) -> None:
        pass


@dataclass(frozen=True)
class Place:
    """A name in a namespace of a pool: of a checkpoint, or of the run above it."""

    base: str
    """URL of the namespace."""
    name: str

    @classmethod
    def of(cls, url: Any) -> Place:
        text = url if isinstance(url, str) else ""
        host, _, rest = text.removeprefix(SCHEME).partition("/")
        namespace, _, name = rest.partition("/")
        name = name.rstrip("/")
        if not text.startswith(SCHEME) or not host or not namespace or not name:
            raise ValueError(f"{url!r} is not the URL of a checkpoint: pool://HOST/NAMESPACE/NAME")
        return cls(f"{SCHEME}{host}/{namespace}", name)

    @property
    def url(self) -> str:
        return f"{self.base}/{self.name}"

    @property
    def metadata(self) -> str:
        """Name of the object that makes the checkpoint exist."""
        return f"{self.name}/{METADATA}"

    @property
    def run(self) -> str:
        """What the names of all checkpoints of the run begin with."""
        return self.name[: self.name.rfind("/") + 1]

    def part(self, save: str, rank: int, part: int) -> str:
        return f"{self.name}/{save}/{rank}.{part}"

    def connect(self, settings: dict[str, Any]) -> pool.Pool:
        return pool.connect(self.base, **settings, kind=Connection)


@dataclass(frozen=True)
class Header:
    """The first line of the metadata, which can be read without PyTorch."""

    save: str
    part_count: int

    def encode(self) -> bytes:
        record = {"format": FORMAT, "save": self.save, "parts": self.part_count}
        return json.dumps(record).encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes, name: str) -> Header:
        try:
            record = json.loads(content.partition(b"\n")[0])
            known, save, part_count = record["format"], record["save"], record["parts"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{name} is not the metadata of a checkpoint of tanada") from error
        if known != FORMAT:
            raise ValueError(f"{name} has format {known}, and this version reads format {FORMAT}")
        return cls(save, part_count)


def read_header(connection: pool.Pool, name: str) -> Header:
    with connection.open(name) as opened:
        return Header.decode(opened.read(_HEADER_SIZE_MAX), name)


def newest_first(connection: pool.Pool, run: str) -> list[str]:
    """Names of the checkpoints directly below ``run``, which ends with a slash or is empty."""
    versions: list[tuple[int, str]] = []
    for prefix in connection.list_level(run).prefixes:
        try:
            versions.append((connection.stat(prefix + METADATA).version, prefix[:-1]))
        except Error as error:
            if error.errno != errno.ENOENT:
                raise
    return [name for _, name in sorted(versions, reverse=True)]


def remove(connection: pool.Pool, name: str) -> None:
    """Remove a checkpoint: the metadata first, so that it is never there in part."""
    connection.remove(f"{name}/{METADATA}")
    remove_superseded(connection, name)


def remove_superseded(connection: pool.Pool, name: str) -> None:
    """Remove the parts of saves that the metadata do not refer to."""
    # The parts are listed first: those of a save that is committed meanwhile are not among them.
    parts = list(_parts(connection, name))
    try:
        current = read_header(connection, f"{name}/{METADATA}").save if parts else ""
    except Error as error:
        if error.errno != errno.ENOENT:
            raise
        current = ""
    _remove_all(connection, (part for part, save in parts if save != current))


def remove_old(connection: pool.Pool, place: Place, keep: int) -> None:
    """Remove the run's checkpoints that are older than ``place``, except the newest ``keep``."""
    names = newest_first(connection, place.run)
    if place.name in names:
        for name in names[names.index(place.name) + 1 + keep :]:
            remove(connection, name)


def _parts(connection: pool.Pool, name: str) -> Iterable[tuple[str, str]]:
    prefix = f"{name}/"
    for entry in connection.list(prefix):
        match = _PART.fullmatch(entry.name[len(prefix) :])
        if match is not None:
            yield entry.name, match["save"]


def _remove_all(connection: pool.Pool, names: Iterable[str]) -> None:
    for name in names:
        try:
            connection.remove(name)
        except Error as error:
            if error.errno != errno.ENOENT:  # another process may remove it, too
                raise
