"""The checksum of all that is compared or chained: zlib's CRC-32.

It is taken several times of every byte that a program says or hears, so the compiled lane has its own, which
takes a quarter of the time. The two are the same function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32 as of_zlib

ONE: Final = 1 << 31
"""Polynomials have their lowest power first."""
X: Final = 1 << 30
MODULUS: Final = 0xEDB88320


def _product(one: int, other: int) -> int:
    found = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            found ^= other
        other = other >> 1 ^ (MODULUS if other & 1 else 0)
    return found


def in_python(first: int, second: int, second_size: int) -> int:
    power, square, exponent = ONE, X, 8 * second_size
    while exponent:
        if exponent & 1:
            power = _product(power, square)
        square, exponent = _product(square, square), exponent >> 1
    return _product(first, power) ^ second


try:
    from llft.wire.polynomial import crc32 as of_the_lane
    from llft.wire.polynomial import joined as by_the_lane
except ImportError:  # the reference lane
    of_the_lane, by_the_lane = of_zlib, in_python

crc32: Final[Callable[..., int]] = of_the_lane
joined: Final[Callable[[int, int, int], int]] = by_the_lane
"""Of two pieces one behind the other: the checksum of each, and the size of the second one."""
