"""Sizes and times in human-readable units."""

from __future__ import annotations

import fractions
import math
import operator
import re

from . import _native

# The syntax of core/base/config.hpp, also with a blank before the unit.
_SIZE = re.compile(r"([0-9]*(?:\.[0-9]+)?)\s*(|B|[KMGT](?:IB)?)")
_FACTORS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def number_of_bytes(size: int | str) -> int:
    """Bytes from 65536, "64KiB", "64k", "2 MiB" or "1.5GiB", rounded up.

    :raises ValueError: any other text, or a number below 0.
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip().upper())
        if match is None or not match[1]:
            raise ValueError(f"{size!r} is no size; write 65536, '64KiB', '2MiB' or '1.5GiB'")
        return math.ceil(fractions.Fraction(match[1]) * _FACTORS[match[2].removesuffix("IB")])
    number = operator.index(size)
    if number < 0:
        raise ValueError(f"a size of {number} bytes")
    return number


def nanoseconds(seconds: float) -> int:
    """Nanoseconds from seconds; ``math.inf`` means no limit.

    :raises ValueError: below 0, or not a number.
    """
    if not seconds >= 0:
        raise ValueError(f"a time of {seconds} seconds")
    # The largest number means no limit, so a larger time becomes that, too.
    return _native.NO_DEADLINE if seconds * 1e9 >= _native.NO_DEADLINE else int(seconds * 1e9)
