"""The checksum of all that is compared or chained: zlib's CRC-32.

It is taken several times of every byte that a program says or hears, so the compiled lane has its own, which
takes a quarter of the time. The two are the same function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32 as of_zlib

try:
    from llft.wire.polynomial import crc32 as of_the_lane
except ImportError:  # the reference lane
    of_the_lane = of_zlib

crc32: Final[Callable[..., int]] = of_the_lane
