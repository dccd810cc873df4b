"""Time is integer nanoseconds everywhere; these name the multiples."""

from __future__ import annotations

US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000

NEVER = (1 << 63) - 1
"""A deadline that never comes; larger than every real instant."""


def format_instant(instant_ns: int) -> str:
    """Seconds with microseconds, for traces that people read."""
    return f"{instant_ns / SECOND:.6f}"
