"""Randomness: bytes that every replica gets alike. Generators that seed themselves are seeded with them.

os.urandom is ordered, and with it secrets, SystemRandom and uuid4. `random.Random` seeds itself in C, so
the C type is replaced by one that asks. uuid1 must not look for a network card: programs would be started,
and hosts differ.
"""

from __future__ import annotations

import _random
import posix
from typing import Any

from llft import originals
from llft.core.determinizer.operations import RandomBytes
from llft.errors import InvariantError
from llft.interpose import counting, passage

_AT_MOST = 65_535
_native_getrandom = posix.getrandom
_SEED_BYTES = 32
_NODE_BYTES, _MULTICAST_BIT = 6, 1 << 40


def urandom(size: int, /) -> bytes:
    if not passage.current():
        return originals.urandom(size)
    if size < 0:
        raise ValueError("negative argument not allowed")
    return b"".join(_draw(min(_AT_MOST, size - start)) for start in range(0, size, _AT_MOST))


def _draw(size: int) -> bytes:
    data = passage.call(RandomBytes(size))
    if not isinstance(data, bytes):
        raise InvariantError("random_bytes_expected", result=data)
    return data


def getrandom(size: int, flags: int = 0) -> bytes:
    return urandom(size) if passage.current() else _native_getrandom(size, flags)


class Random(_random.Random):
    """Seeds itself with ordered bytes if it is given no seed."""

    def seed(self, n: Any = None, /) -> None:
        super().seed(int.from_bytes(urandom(_SEED_BYTES), "big") if n is None else n)


def node() -> int:
    """In place of a network card's address: a random one, marked as such (RFC 4122, 4.5)."""
    return int.from_bytes(urandom(_NODE_BYTES), "big") | _MULTICAST_BIT


def replacements() -> dict[str, dict[str, object]]:
    return {
        "posix": {"urandom": counting.function("urandom", urandom), "getrandom": getrandom},
        "_random": {"Random": Random},
        "_uuid": {"generate_time_safe": None},
    }
