"""What the compiled lane has for many clock readings at a time (`times.c`); None in the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

encode_times: Callable[[list[int]], bytes | None] | None
"""Entries of all readings but the first, that differ from the one before in a later value alone; or None."""
pack_times: Callable[[bytes, list[int]], bytes | None] | None
"""Readings as zigzag varints, each behind the same bytes; or None."""
decode_times: Callable[[bytearray, int, tuple[Any, ...]], tuple[list[tuple[Any, ...]], int]] | None
"""Readings that follow an entry in a buffer, from a position on, and where they end."""
try:
    from llft.wire import times
except ImportError:
    encode_times = pack_times = decode_times = None
else:
    encode_times, pack_times, decode_times = times.encode, times.pack, times.decode
