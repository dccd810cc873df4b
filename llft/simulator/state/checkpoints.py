"""The checkpoints of one process: its keeper, what a State message says of its program, and what joiners get.

Beside that it watches: a keeper must never count on a state that is not what the program was, nor drop what
a state of its own needs. It is asked after every `tend`, with the knowledge that no keeper has.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from llft.identifiers import BirthId
from llft.instant import MS
from llft.past.checkpoint import Base, Checkpoint, pack
from llft.past.keeper import Keeper
from llft.past.pace import Pace
from llft.past.source import Captured
from llft.simulator.interfaces import Program
from llft.simulator.state.images import Images, Trial
from llft.simulator.state.remembering import Remembering
from llft.simulator.world import World

TEND_NS = MS
LOG_BYTES = (200, 2000)
CARRIED_LOG_BYTES = (0, 4000)
"""Between such bounds it is drawn how much log makes a checkpoint due, and how much travels with a State."""
PACE = Pace(
    witnessed_calls_min=64,
    witness_ns=2 * MS,
    verification_ns=60 * MS,
    rest_max_ns=4 * MS,
    lease_ns=200 * MS,
)


class Checkpoints:
    def __init__(
        self,
        world: World,
        application: Remembering,
        rng: random.Random,
        make_program: Callable[[], Program],
        object_to: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        self._world = world
        self._application = application
        self._rng = rng
        self._make_program = make_program
        self._object_to = object_to
        self._say = say
        self._log_bytes = rng.randint(*LOG_BYTES)
        self._carried_bytes = rng.randint(*CARRIED_LOG_BYTES)
        self.images = Images(application, rng)
        self.keeper = self._new_keeper()

    def _new_keeper(self) -> Keeper:
        return Keeper(
            self._application,
            self.images,
            self._begin_trial,
            self._say,
            self.images.discard,
            log_bytes=self._log_bytes,
            pace=PACE,
        )

    def _begin_trial(self, captured: Captured, head: bytes, followed: bytes) -> Trial:
        state = self.images.states[captured.path]
        return Trial(self._world, self._rng, self._make_program, state, followed)

    def forget(self) -> None:
        """The program is: this process rejoins."""
        self.images.forget()
        self.keeper = self._new_keeper()

    def adopt(self, base: Base, state: bytes) -> None:
        """The program was restored from this state."""
        path = f"state-{base.position}.adopted"
        self.images.states[path] = state
        self.keeper.adopt(base, path)

    def tend(self) -> None:
        self.keeper.tend(self._world.now_ns)
        self._watch()

    def _watch(self) -> None:
        base, log = self.keeper.base, self._application.log
        if base is None:
            if log.start:
                self._object_to(f"has dropped its log before {log.start}, and has no verified state")
            return
        if base.position in self.images.unsound:
            self._object_to(f"counts on the state of {base.position}, which is not what the program was")
        if not log.has(base.position, log.length):
            self._object_to(f"has dropped its log before {log.start}, and its state is of {base.position}")

    # For joiners.

    def taken(self, birth_id: BirthId) -> bytes:
        """Where the program is now, in the words of its log (the State message's part)."""
        log, base = self._application.log, self.keeper.tell(self._world.now_ns)
        out = list(self._application.out)
        since = (base.position, base.digest) if base is not None else (0, 0)
        checkpoint = Checkpoint(birth_id, log.length, log.digest, out, [], {}, base, *since)
        return pack(checkpoint, log, carried_bytes=self._carried_bytes)

    def state_piece(self, position: int, start: int, end: int) -> bytes | None:
        """A whole one. Somebody else's state at that position may be another, and shorter."""
        path = self.keeper.lend(position, self._world.now_ns)
        piece = self.images.states[path][start:end] if path else b""
        return piece if len(piece) == end - start else None

    def log_piece(self, start: int, end: int) -> bytes | None:
        log = self._application.log
        return log.piece(start, end) if log.has(start, end) and not self._application.replaying else None

    def newest(self) -> tuple[Base | None, bytes]:
        base, path = self.keeper.newest()
        return base, self.images.states[path] if base is not None else b""
