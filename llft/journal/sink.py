"""The way from a journal to its file."""

from __future__ import annotations

from typing import Protocol

from llft import originals


class Sink(Protocol):
    """`write` and `settle` raise the operating system's error."""

    def write(self, fd: int, data: bytes) -> int:
        """Take bytes; returns how many."""

    def settle(self) -> None:
        """Wait, within a bound, until all that was taken is in the file."""

    def abandon(self) -> None:
        """Forget what is not: the descriptor is about to be closed."""


class _Direct:
    def write(self, fd: int, data: bytes) -> int:
        return originals.write(fd, data)

    def settle(self) -> None:
        pass

    def abandon(self) -> None:
        pass


DIRECT: Sink = _Direct()
