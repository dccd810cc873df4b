"""What a process does for its program's past: checkpoints, joining with them, a history on its disk.

The runtime's replica process does the same with files, sockets and threads. Laws:

1. What the program was given is on disk before anything leaves the process that follows from it (`flush`).
2. A program whose past is still being fetched is not of use to anybody: who has only that does not take over
   (the core's StateStored, D-70), and a group that has only such ones is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llft.core import events
from llft.errors import InvariantError
from llft.past.checkpoint import unpack
from llft.past.history import VERSION, Heading, Past, view_number
from llft.past.resumed import Resumed
from llft.simulator.state.checkpoints import TEND_NS, Checkpoints
from llft.simulator.state.disk import Disk, HistoryWriter
from llft.simulator.state.fetching import Fetching, Served
from llft.simulator.state.remembering import Remembering

if TYPE_CHECKING:
    from llft.simulator.process import Process


class Keeping:
    def __init__(self, process: Process, disk: Disk | None, *, generation: int) -> None:
        application = process.application
        assert isinstance(application, Remembering)
        self._process = process
        self._world = process.world
        self._rng = process.world.stream(f"keeping/{process.number}")
        self._generation = generation
        self._disk = disk
        if disk is not None:
            disk.in_use = True
        self._writer = HistoryWriter(disk) if disk is not None else None
        self._told = False
        self._fetching: Fetching | None = None
        self.application = application
        self.resumed = Resumed(application, process.step)
        self.checkpoints = Checkpoints(
            self._world, application, self._rng, process.group.new_program, self._object_to, self._say
        )
        self._world.at(self._world.now_ns + TEND_NS, self._tend)

    @property
    def fetching(self) -> bool:
        """Its program is elsewhere yet."""
        return self._fetching is not None

    @property
    def restoring(self) -> bool:
        return self.application.replaying

    def log_name(self) -> tuple[int, int]:
        """Its length, and its digest from birth."""
        return self.application.log.length, self.application.log.digest

    def _object_to(self, text: str) -> None:
        self._process.cluster.past_objections.append(f"{self._process.name} {text}.")

    def _say(self, text: str) -> None:
        if self._world.trace.tracing:
            self._world.trace.say(self._world.now_ns, self._process.label(), f"%% {text}")

    def _tend(self, _: None) -> None:
        if not self._process.alive:
            return
        if not self._process.paused:
            try:
                self._look_after()
            except Exception:  # noqa: BLE001 (a keeper that raises is evidence)
                self._process.fail("its checkpoints")
                return
        self._world.at(self._world.now_ns + TEND_NS, self._tend)

    def _look_after(self) -> None:
        if self.fetching and self._process.core.role == "primary":
            self._object_to("is the primary, and its program's past is elsewhere")
        self.checkpoints.tend()
        base, _ = self.checkpoints.newest()
        if self._writer is not None and self._writer.begun and base != self._writer.base:
            self._begin_history(self._writer)
        self.flush()
        if self._writer is not None and self._writer.begun and not self._told:
            self._told = True
            self._process.step(events.HistoryBegun())

    def forget(self) -> None:
        """The program is: this process rejoins its group."""
        if self._fetching is not None:
            self._fetching.abandoned = True
            self._fetching = None
        self.checkpoints.forget()
        if self._disk is not None:
            self._writer, self._told = HistoryWriter(self._disk), False

    def end(self) -> None:
        """The process is gone; its disk is not."""
        if self._fetching is not None:
            self._fetching.abandoned = True
        if self._disk is not None:
            self._disk.in_use = False

    # The program's threads.

    def repeat(self, thread: int) -> Iterator[events.Event]:
        """The calls that threads of an earlier group make once more now (D-64)."""
        self.resumed.repeat(thread)
        while self.resumed.calls:
            yield self.resumed.calls.popleft()

    # Joining.

    def capture(self) -> bytes:
        if self.fetching:  # what it would say is that the program had no past
            raise InvariantError("captured_without_past")
        return self.checkpoints.taken(self._process.birth_id)

    def restore(self, state: bytes) -> None:
        wanted = unpack(state)
        self._say(f"joins with the log from {wanted.carried_from} to {wanted.length} of {wanted.taken_by}")
        self.application.begin_restoring()

        def done(log: bytes, image: bytes) -> None:
            self._fetching = None
            if wanted.base is not None:
                self.checkpoints.adopt(wanted.base, image)
            self._repeat(log, wanted.out, wanted.base, image)
            if self._process.alive:
                self._process.step(events.StateStored(held=True))

        self._fetching = Fetching(
            self._world,
            self._rng,
            wanted,
            self._servers,
            done,
            self._give_up,
            self._object_to,
            lambda: self._process.paused,
        )
        self._fetching.begin()

    def _servers(self) -> Iterator[Served]:
        network, mine = self._process.cluster.network, self._process
        for peer in mine.group.processes:
            apart = network.is_blocked(peer.number, mine.number) or network.is_blocked(
                mine.number, peer.number
            )
            if peer is not mine and isinstance(peer.past, Keeping) and not (apart or peer.paused):
                yield Served(peer.birth_id, peer.past.checkpoints)

    def _give_up(self, reason: str) -> None:
        self._fetching = None
        self._process.cluster.note_fault(f"{self._process.label()} starts anew: {reason}")
        self._process.start_anew()

    def _repeat(self, *past: Any, **named: Any) -> None:
        try:
            self.application.replay(*past, **named)
        except Exception:  # noqa: BLE001 (a past that cannot be repeated is evidence)
            self._process.fail("its past")

    # The disk.

    def flush(self) -> None:
        writer, log = self._writer, self.application.log
        if writer is None or self.application.replaying or not log.length:
            return
        if not writer.begun:
            self._begin_history(writer)
        writer.flush(log, self._view())

    def _view(self) -> int:
        core: Any = self._process.core
        return view_number(core)

    def _begin_history(self, writer: HistoryWriter) -> None:
        base, state = self.checkpoints.newest()
        core: Any = self._process.core
        outside = core.determinizer.engine.outside
        heading = Heading(
            VERSION,
            {},
            list(base) if base is not None else None,
            base.position if base is not None else 0,
            base.digest if base is not None else 0,
            0,
            outside.clock.snapshot(outside.local_clock),
            self._generation,
        )
        writer.begin(heading, base, state, self.application.log, self._view())

    def go_on(self, past: Past, state: bytes) -> None:
        """The program goes through its past, as it is on disk; then the group begins again with it."""

        def begin_again() -> None:
            memory = self.application.memory
            started = self.resumed.started(memory.readings, self._process.clock.read, held=memory.held)
            self._process.step(started)

        self._say(
            f"goes on from {past.directory}: log from {past.heading.start} to {past.end}, rank {past.rank}"
        )
        readings = {clock_id: last for clock_id, _, last in past.heading.clock}
        self.application.begin_restoring()
        self.application.past_over = begin_again
        if past.base is not None:
            self.checkpoints.adopt(past.base, state)
        self._repeat(past.log, [], past.base, state, readings=readings)
