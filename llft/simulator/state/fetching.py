"""A joiner gets the state and the log that a State message names: piece by piece, from whoever has them.

From the member that took the checkpoint, or, should it be gone, from another one: under the token all have
the same log, but each its own states. If nobody serves it any more the joiner starts anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from llft.identifiers import BirthId
from llft.instant import MS, US
from llft.past.checkpoint import Base, Checkpoint
from llft.simulator.state.checkpoints import Checkpoints
from llft.simulator.state.images import content_of
from llft.simulator.world import World

PIECE_BYTES = 2048
PIECE_NS = (200 * US, 4 * MS)
ROUNDS = 30
ROUND_NS = 3 * MS


class Served(NamedTuple):
    """A member that can be reached, and what it serves."""

    birth_id: BirthId
    checkpoints: Checkpoints


@dataclass(slots=True)
class Fetching:
    world: World
    rng: random.Random
    wanted: Checkpoint
    servers: Callable[[], Iterator[Served]]
    """All members but this one, as they are now."""
    done: Callable[[bytes, bytes], None]
    """The log, and the state."""
    failed: Callable[[str], None]
    object_to: Callable[[str], None]
    paused: Callable[[], bool]
    state: bytearray = field(default_factory=bytearray)
    log: bytearray = field(default_factory=bytearray)
    rounds_left: int = ROUNDS
    abandoned: bool = False

    def begin(self) -> None:
        if self.wanted.log is not None:
            self.log += self.wanted.log
        self._later(self.rng.randint(*PIECE_NS))

    def _later(self, after_ns: int) -> None:
        self.world.at(self.world.now_ns + after_ns, self._go_on)

    def _go_on(self, _: None) -> None:
        if self.abandoned:
            return
        if self.paused():
            self._later(MS)
        elif self._is_complete():
            self._conclude()
        elif self._take_piece():
            self._later(self.rng.randint(*PIECE_NS))
        else:
            self.rounds_left -= 1
            if self.rounds_left:
                self._later(ROUND_NS)
            else:
                self.failed("nobody serves the state or the log")

    def _is_complete(self) -> bool:
        base = self.wanted.base
        size = base.size if base is not None else 0
        return len(self.state) >= size and self.wanted.carried_from + len(self.log) >= self.wanted.length

    def _take_piece(self) -> bool:
        source = self.wanted.taken_by
        for server in sorted(self.servers(), key=lambda server: server.birth_id != source):
            kept, piece = self._ask(server, self.wanted.base)
            if piece is not None:
                kept += piece
                return True
            if server.birth_id == source:
                self.object_to(f"{source} named a checkpoint of {self.wanted.length}, and has it no more")
        return False

    def _ask(self, server: Served, base: Base | None) -> tuple[bytearray, bytes | None]:
        if base is not None and len(self.state) < base.size:
            start = len(self.state)
            end = min(start + PIECE_BYTES, base.size)
            return self.state, server.checkpoints.state_piece(base.position, start, end)
        start = self.wanted.carried_from + len(self.log)
        return self.log, server.checkpoints.log_piece(start, min(start + PIECE_BYTES, self.wanted.length))

    def _conclude(self) -> None:
        base = self.wanted.base
        before = base.digest if base is not None else 0
        state_is_it = base is None or content_of(bytes(self.state)) == base.content
        if state_is_it and self.wanted.is_of(bytes(self.log), start=self.wanted.carried_from, digest=before):
            self.done(bytes(self.log), bytes(self.state))
        else:
            self.failed("what was served is not what was named")
