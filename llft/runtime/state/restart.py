"""How a program comes to a state of its own, by its hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Restart(NamedTuple):
    """It is replayed over the beginning of its log, then restored. What came after that state follows."""

    head: bytes
    restore: Callable[[], None]
