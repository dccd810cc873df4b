"""Several threads in one dialogue (D-74): who waits for what, lent and taken back.

A program's threads wait for one another (Park) and for connections (Receive, Select). Where what they wait
for is lent, the token goes from one to the other in C (`llft/dialogue/threads.c`). What else a thread waits
for is the core's, and the dialogue ends where it comes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from llft.core.determinizer.operation_ids import parking_id
from llft.core.determinizer.operations import Operation, Park, Receive, Result, Select, Yield
from llft.core.determinizer.sockets import LISTENER
from llft.core.determinizer.token import TokenEngine
from llft.core.dialogue_numbers import LARGEST
from llft.identifiers import ThreadId
from llft.instant import NEVER

if TYPE_CHECKING:
    from llft.core.dialogue_lent import Lender
    from llft.core.replica import Replica

THREADS_MAX: Final = 64
ALL_AT_MOST: Final = 32
"""So many connections are lent whoever waits for them: who runs now will wait for some of them."""
ELSEWHERE, RUNS, ASLEEP, PARKED, RUNNABLE, WOKEN = range(6)
NO_CALL, RECEIVES, _, _, SELECTS, PARKS, YIELDS = range(7)
"""States and calls, as C has them."""

Row = tuple[ThreadId, int, int, int, int, tuple[int, ...], tuple[int, ...], bool, int, int, int, int, int]
"""Number, state, kind of call; descriptor and limit; descriptors, those to be written, whether it can be
unparked; timeout, and until when; identifier of its selects, how many were performed, and coded."""


class LentThreads(NamedTuple):
    parked_elsewhere: int
    """How many wait for what is not lent."""
    rows: list[Row]
    results: dict[ThreadId, Result]
    """Of those that can go on: what they go on with."""
    fds: list[int]
    """That those wait for who are lent, besides the one that runs."""


class Turned(NamedTuple):
    """A thread that is not where it was: what it waits for, or that it can go on."""

    number: ThreadId
    state: int
    operation: Operation
    until_ns: int


class MadeThreads(NamedTuple):
    running: ThreadId
    turned: list[Turned]
    """In the order in which they stopped."""


Told = tuple[int, list[tuple[int, int, int, tuple[int, ...], int]]]


def made_threads(told: Told | None) -> MadeThreads | None:
    """Of what C tells."""
    if told is None:
        return None
    running, turned = told
    return MadeThreads(
        running,
        [
            Turned(number, state, _operation(kind, about), until_ns)
            for number, state, kind, about, until_ns in turned
        ],
    )


def _operation(kind: int, about: tuple[int, ...]) -> Operation:
    if kind == RECEIVES:
        fd, limit = about
        return Receive(fd, limit)
    if kind == YIELDS:
        return Yield()
    return Select(*about) if kind == SELECTS else Park(*about)  # type: ignore[arg-type]


class Threads:
    def __init__(self, replica: Replica) -> None:
        self._replica, self._engine = replica, replica.determinizer.engine

    def lend(self, thread: ThreadId, lender: Lender) -> LentThreads | None:
        """None: there is no other that could go on there, or there are too many."""
        engine = self._engine
        assert isinstance(engine, TokenEngine)
        run_queue = engine.scheduler.run_queue
        if not 0 < len(engine.parked) + len(engine.asleep) + len(run_queue) < THREADS_MAX:
            return None
        rows, fds, elsewhere = [self._row(thread, RUNS, None, lender)], [], 0
        table = self._replica.messaging.table.by_fd
        if len(table) <= ALL_AT_MOST:
            fds += [fd for fd in table if lender.can_lend([fd])]
        results: dict[ThreadId, Result] = {}
        for what, number, value in run_queue:
            if what == "resume":
                rows.append(self._row(number, RUNNABLE, None, lender))
                results[number] = value  # type: ignore[assignment]  # "resume" carries a result
                continue
            woken = (
                _awaited(value, lender) if what == "retry" and isinstance(value, (Receive, Select)) else None
            )
            if woken is None:
                return None
            fds += woken
            rows.append(self._row(number, WOKEN, value, lender))  # type: ignore[arg-type]  # and its operation
        for number, operation in engine.asleep.items():
            rows.append(self._row(number, ASLEEP, operation, lender))
        for number, operation in engine.parked.items():
            awaited = _awaited(operation, lender)
            if awaited is None:
                elsewhere += 1
                rows.append(self._row(number, ELSEWHERE, None, lender))
            else:
                fds += awaited
                rows.append(self._row(number, PARKED, operation, lender))
        return LentThreads(elsewhere, rows, results, fds) if len(rows) > 1 + elsewhere else None

    def _row(self, number: ThreadId, state: int, operation: Operation | None, lender: Lender) -> Row:
        kind, fd, limit, timeout_ns = NO_CALL, 0, 0, -1
        fds: tuple[int, ...] = ()
        writing: tuple[int, ...] = ()
        interruptible = False
        if isinstance(operation, Receive):
            kind, fd, limit = RECEIVES, operation.fd, operation.limit
        elif isinstance(operation, Select):
            kind = SELECTS
            fds, timeout_ns, writing, interruptible = operation
        elif isinstance(operation, Park):
            kind, timeout_ns = PARKS, operation.timeout_ns
        until_ns = self._engine.outside.deadlines.get(number, NEVER)
        selects = parking_id(number)
        counts = lender.count(*selects)
        return (
            *(number, state, kind, fd, limit, fds, writing, interruptible),
            *(timeout_ns, until_ns, selects[1], *counts),
        )

    def can_run_on(self, *, with_others: bool) -> bool:
        """Who is runnable may be picked in a dialogue, too, if it has its result."""
        engine = self._engine
        assert isinstance(engine, TokenEngine)
        return with_others or not engine.scheduler.run_queue

    def are_free(self, fds: list[int], others: frozenset[ThreadId]) -> bool:
        """At a primary: but for these others nobody waits for these, nor for any other descriptor that
        something has happened to."""
        messaging, engine = self._replica.messaging, self._engine
        assert isinstance(engine, TokenEngine)
        touched = messaging.indexes.touched.so_far()
        if touched is None or (LISTENER in fds and messaging.pending_accept):
            return False
        parked, waiters = engine.parked, engine.waiters
        if others:
            parked = {thread: operation for thread, operation in parked.items() if thread not in others}
        return not any(waiters.somebody_waits_for(fd, parked) for fd in (*fds, *touched))

    def take(self, made: MadeThreads) -> None:
        """Who waits where, and who runs."""
        engine, live = self._engine, self._replica.live
        assert isinstance(engine, TokenEngine)
        asleep, parked, deadlines = engine.asleep, engine.parked, engine.outside.deadlines
        moved = [made.running, *[each.number for each in made.turned]]
        engine.scheduler.run_queue = deque(
            [each for each in engine.scheduler.run_queue if each[1] not in moved]
        )
        for number in moved:
            asleep.pop(number, None)
            parked.pop(number, None)
            deadlines.pop(number, None)
        engine.scheduler.running = made.running
        for each in made.turned:
            if each.state == RUNNABLE:
                engine.scheduler.enqueue(("resume", each.number, _unparked(each.operation)))
            elif each.state == WOKEN:
                engine.scheduler.enqueue(("retry", each.number, each.operation))
                if not isinstance(each.operation, Receive):
                    deadlines[each.number] = each.until_ns
            elif each.state == ASLEEP:
                asleep[each.number] = each.operation
            else:
                parked[each.number] = each.operation
                if not isinstance(each.operation, Receive):
                    deadlines[each.number] = each.until_ns
                if live:
                    engine.waiters.enter(each.number, each.operation, tried=True)


def _awaited(operation: Operation, lender: Lender) -> list[int] | None:
    """Descriptors. None: it waits for something else, or one of them, or a number, cannot be lent."""
    if isinstance(operation, Park):
        return [] if operation.timeout_ns <= LARGEST else None
    if isinstance(operation, Receive):
        fds, plain = [operation.fd], operation.blocking and not operation.peek
        return fds if plain and operation.limit <= LARGEST and lender.can_lend(fds) else None
    if isinstance(operation, Select):
        fds = [*operation.fds, *operation.writing]
        return fds if operation.timeout_ns <= LARGEST and lender.can_lend(fds) else None
    return None


def _unparked(operation: Operation) -> Result:
    return True if isinstance(operation, Park) else None
