"""Calls that are completed then and there: what `Replica.step` does, without an event and a completion.

Most calls of a program need nobody: the primary reads its clock, a backup has the entry already. Law: the
replica is afterwards as if it had been stepped, and the same is in its outbox, but for the thread's
resumption; and as if stepped for each call of a run, when that is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from llft.core.determinizer.operations import Operation, Result
from llft.core.determinizer.ordered import OrderedEngine
from llft.core.determinizer.ordered_runs import SINGLE, Lent, OrderedRuns
from llft.core.determinizer.outside import BLOCKED, Stage
from llft.core.determinizer.runs import Heard, Runs
from llft.core.determinizer.token import TokenEngine
from llft.core.standing import BACKUP, PRIMARY
from llft.errors import DivergenceError, InvariantError
from llft.identifiers import ThreadId
from llft.wire.order import Entry, OrderEncoder

if TYPE_CHECKING:
    from llft.core.replica import Replica


class AtOnce:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.outbox = replica.outbox

    def call(self, thread: ThreadId, operation: Operation, now_ns: int) -> Result | Literal[Stage.BLOCKED]:
        """BLOCKED: nothing has happened, and the call is an event for `step`; or the outbox says what has,
        and the replica has reset."""
        replica = self.replica
        if self.standing.role != (PRIMARY if replica.live else BACKUP):
            return BLOCKED
        if now_ns - replica.last_step_ns > replica.pause_ns:
            return BLOCKED
        replica.now_ns = self.outbox.now_ns = replica.last_step_ns = now_ns
        try:
            result = replica.determinizer.engine.at_once(thread, operation, now_ns)
            if result is not BLOCKED:
                replica.settle(from_outside=False)
        except DivergenceError as error:
            replica.reset_and_rejoin(f"diverged: {error}")
            return BLOCKED
        return result


class Run(Heard):
    """Calls that are made without the replica (`determinizer.runs`), between the driver and the engine."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        engine = replica.determinizer.engine
        self._runs: Runs | OrderedRuns | None = None
        self.plain: Any = None
        """What is lent, in a process where no C keeps it."""
        if isinstance(engine, TokenEngine):
            self._runs = Runs(engine, self)
        elif isinstance(engine, OrderedEngine):
            self._runs = OrderedRuns(engine, self)

    def room(self, thread: ThreadId) -> int:
        """At a primary: how many calls may be lent to the thread, that has just been given a result."""
        replica, runs = self._replica, self._runs
        if runs is None or not replica.live or replica.standing.role != PRIMARY or replica.asking.under_way:
            return 0  # what backups answer is to be heard soon
        return runs.room(thread)

    def clocks(self) -> tuple[int, int, int, int, int, int]:
        assert self._runs is not None
        return self._runs.clocks()

    def mutexes(self) -> tuple[dict[int, ThreadId], dict[int, Any]] | tuple[()]:
        """In ordered mode: those that are held, and those that somebody waits for. Under the token a run has
        none."""
        return self._runs.mutexes() if isinstance(self._runs, OrderedRuns) else ()

    def logged(self, thread: ThreadId) -> Lent:
        """At a backup: what may be lent to the thread."""
        replica, runs = self._replica, self._runs
        if runs is None or replica.live or replica.standing.role != BACKUP:
            return b"", [], SINGLE
        if isinstance(runs, OrderedRuns):
            return runs.logged(thread)
        codes, values = runs.logged(thread)
        return codes, values, SINGLE

    def take_back(
        self,
        thread: ThreadId,
        codes: bytes,
        values: list[Any],
        local: tuple[int, int, int],
        now_ns: int,
        sizes: list[int] = SINGLE,
    ) -> None:
        replica = self._replica
        if self._runs is None or replica.standing.role not in (PRIMARY, BACKUP):
            raise InvariantError("run_of_nobody", thread=thread, role=replica.standing.role)
        replica.now_ns = replica.outbox.now_ns = now_ns
        try:
            if isinstance(self._runs, OrderedRuns):
                self._runs.take_back(thread, codes, values, local, now_ns, sizes)
            else:
                self._runs.take_back(thread, codes, values, local, now_ns)
            if now_ns - replica.last_step_ns <= replica.pause_ns:  # else the next step is to notice it first
                replica.settle(from_outside=False)
        except DivergenceError as error:
            replica.reset_and_rejoin(f"diverged: {error}")

    def readings(self, number: int, pick: int, thread: ThreadId, clock_id: int, values: list[int]) -> None:
        if not number:
            number = self._encoder().count + 1
            self._encoder().append_readings(pick, thread, clock_id, values)
        elif not self._consumed(len(values)):
            return
        else:
            number += self._replica.followed_base
        self._replica.outbox.note_readings(number, pick, thread, clock_id, values)

    def counted(self, number: int, first: Entry, data: list[bytes]) -> None:
        if not number:
            number = self._encoder().count + 1
            self._encoder().append_counted(first, data)
        elif not self._consumed(len(data)):
            return
        else:
            number += self._replica.followed_base
        self._replica.outbox.note_counted(number, first, data)

    def locked(self, number: int, first: Entry, counts: list[int]) -> None:
        replica = self._replica
        if not number:
            encoder = self._encoder()
            number = encoder.count + 1
            encoder.append_locks(first, counts)
        elif not self._are_journalled():
            return
        elif replica.overtaken or number + replica.followed_base != replica.journalled + 1:
            for behind, count in enumerate(counts):  # the journal has them in the order of the log
                replica.on_consumed(number + behind, (*first[:4], count, first[5]))
            return
        else:
            replica.journalled += len(counts)
            number += replica.followed_base
        replica.outbox.note_locks(number, first, counts)

    def _encoder(self) -> OrderEncoder:
        lane = self._replica.messaging.lane
        assert lane.encoder is not None and lane.unmarked is None, (
            "only a primary records, and nothing was read"
        )
        return lane.encoder

    def _consumed(self, count: int) -> bool:
        """At a backup, so many entries: whether they are to be journalled."""
        if self._are_journalled():
            self._replica.journalled += count
        return self._are_journalled()

    def _are_journalled(self) -> bool:
        return self._replica.outbox.journalling or self._replica.config.durable
