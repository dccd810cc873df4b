"""Time is integer nanoseconds everywhere; these name the multiples."""

from __future__ import annotations

from typing import Final

US: Final = 1_000
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000

NEVER: Final = (1 << 62) - 1
"""A deadline that never comes; larger than every real instant."""


def format_instant(instant_ns: int) -> str:
    """Seconds with microseconds, for traces that people read."""
    return f"{instant_ns / SECOND:.6f}"
