"""Which sequence numbers of a sender have come already.

A ring of WIDTH numbers: the slot of a number is its remainder, and holds the newest number of that
remainder that was accepted. In the window (newest - WIDTH, newest] every slot stands for one number, so
holding it means having it. Whatever is below the window counts as a replay: it can no longer be told from
one, and a datagram may be lost anyway.
"""

from __future__ import annotations

from array import array
from typing import Final

WIDTH: Final = 4096
_MASK: Final = WIDTH - 1


class ReplayWindow:
    __slots__ = ("_ring", "newest")

    def __init__(self) -> None:
        self._ring = array("Q", bytes(8 * WIDTH))
        self.newest = 0

    def accept(self, number: int) -> bool:
        """True the first time. Numbers begin with 1."""
        slot = number & _MASK
        if number <= self.newest - WIDTH or number <= 0 or self._ring[slot] == number:
            return False
        self._ring[slot] = number
        if number > self.newest:
            self.newest = number
        return True

    def accept_run(self, first: int, count: int) -> None:
        """So many, one after the other, which are newer than all before."""
        last = first + count - 1
        number = max(first, last - WIDTH + 1)
        while number <= last:
            slot = number & _MASK
            until = min(last, number + _MASK - slot) + 1
            self._ring[slot : slot + until - number] = array("Q", range(number, until))
            number = until
        self.newest = max(self.newest, last)
