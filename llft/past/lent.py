"""A verified state that a keeper has, and until when a joiner may need it."""

from __future__ import annotations

from llft.past.checkpoint import Base


class Kept:
    __slots__ = ("base", "lent_until_ns", "path")

    def __init__(self, base: Base, path: str) -> None:
        self.base = base
        self.path = path
        self.lent_until_ns = 0
