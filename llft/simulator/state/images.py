"""Where states come from in the world, and how they are tried: the program's memory, and a copy of it.

Some captures go wrong, as images and hooks do: they fail at once, or the state is not what the program
was. Nobody but this source knows; to find out is the verification's business (D-61).
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from hashlib import blake2b

from llft.errors import DivergenceError
from llft.instant import MS
from llft.past.birth_log import START, check_kind
from llft.past.keeper import Verdict
from llft.past.log_reading import events
from llft.past.source import IMAGE, Captured, NotCapturedError
from llft.past.witness import Witness
from llft.simulator.interfaces import Program
from llft.simulator.state.remembering import Memory, Remembering, note_call, run_of
from llft.simulator.world import World

UNSOUND_SHARE = 0.25
FAILED_SHARE = 0.05
TRIAL_NS = (1 * MS, 8 * MS)


def content_of(state: bytes) -> str:
    return blake2b(state, digest_size=16).hexdigest()


class Images:
    """The states of one process, by name, and the source of them."""

    name = IMAGE

    def __init__(self, application: Remembering, rng: random.Random) -> None:
        self._application = application
        self._rng = rng
        self.states: dict[str, bytes] = {}
        self.unsound: set[int] = set()
        """Positions of states that are not what the program was."""
        self._count = 0

    def obstacle(self) -> str:
        return ""

    def capture(self) -> Captured:
        draw = self._rng.random()
        if draw < FAILED_SHARE:
            raise NotCapturedError("the world says so")
        log = self._application.log
        state = self._application.image()
        if draw > 1 - UNSOUND_SHARE:
            state = _spoiled(state)
            self.unsound.add(log.length)
        else:
            self.unsound.discard(log.length)
        self._count += 1
        path = f"state-{log.length}.{self._count}"
        self.states[path] = state
        return Captured(path, log.length, log.digest, 0)

    def discard(self, path: str) -> None:
        self.states.pop(path, None)

    def forget(self) -> None:
        self.states.clear()
        self.unsound.clear()


def _spoiled(state: bytes) -> bytes:
    """It shows in the next reply."""
    captured, memory = pickle.loads(state)
    attributes = pickle.loads(captured)
    attributes["sequence"] += 1
    return pickle.dumps((pickle.dumps(attributes), memory), protocol=5)


class Trial:
    """A scratch process: it is done after a while."""

    def __init__(
        self,
        world: World,
        rng: random.Random,
        make_program: Callable[[], Program],
        state: bytes,
        followed: bytes,
    ) -> None:
        self._world = world
        self._done_ns = world.now_ns + rng.randint(*TRIAL_NS)
        self._make_program = make_program
        self._state = state
        self._followed = followed

    def verdict(self) -> Verdict | None:
        if self._world.now_ns < self._done_ns:
            return None
        witness = Witness()
        try:
            self._live(witness)
        except (DivergenceError, KeyError) as error:
            raise NotCapturedError(f"its trial failed: {error}") from None
        return Verdict(witness.digest, witness.count, content_of(self._state), len(self._state))

    def _live(self, witness: Witness) -> None:
        program = self._make_program()
        memory: Memory
        captured, memory = pickle.loads(self._state)
        program.restore(captured)
        for event in events(self._followed):
            _, number, value = run_of(event)
            if event.what == START:
                operation = program.start_thread(number, value)
            else:
                check_kind(number, event.kind, memory.threads[number].kind)
                operation = program.resume(number, value)
            memory.called(number, operation)
            note_call(witness, number, operation)

    def end(self) -> None: ...
