"""A disk with the history of a replica on it (D-64), and what becomes of it when the power goes."""

from __future__ import annotations

import random

from llft.errors import PeerError
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base
from llft.past.history import Heading, Past, frames, opening, read
from llft.simulator.state.images import content_of


class Disk:
    """Survives its process. A process that takes the place of a dead one writes over its history."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.history = bytearray()
        self.state = b""
        self.in_use = False

    def past(self) -> Past | None:
        """What a restart finds; None: nothing that can be used."""
        if not self.history:
            return None
        try:
            past = read(self.name, bytes(self.history))
        except PeerError:
            return None
        if past.base is not None and content_of(self.state) != past.base.content:
            return None
        return past

    def tear(self, rng: random.Random) -> None:
        """The process was killed while it wrote: of its last frame a part is there, or something else. What
        follows from a frame leaves the process after the frame is written; so of this one nobody knows."""
        if not self.history:
            return
        size = rng.randint(1, 60)
        frame = rng.randbytes(12) if rng.random() < 0.5 else size.to_bytes(4, "little") + rng.randbytes(8)
        self.history += frame + rng.randbytes(rng.randint(0, size))


class HistoryWriter:
    """The history of one life of a process, on its disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._written = 0
        self.begun = False
        self.base: Base | None = None

    def begin(self, heading: Heading, base: Base | None, state: bytes, log: BirthLog, view: int) -> None:
        """From its newest state on, in the place of what was there."""
        self._disk.history = bytearray(opening(heading, log))
        self._disk.state = state
        self._written, self.base, self.begun = heading.start, base, True
        self.flush(log, view)

    def flush(self, log: BirthLog, view: int) -> None:
        for end, frame in frames(log, self._written, view):
            self._disk.history += frame
            self._written = end
