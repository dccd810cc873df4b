"""The application of one process: its program, and the threads that were resumed but have not run yet.

A resumed thread runs on after a random service time, to which a client's primary adds the time its user
thinks (a backup repeats what was done and waits for no user). To the world that is one call of the
program, whose next operation reaches the core in the same instant. So a capture always finds
the program between two calls, plus a list of results that have not been run. Laws:

1. With the token (D-16) threads run strictly in the order in which they were resumed, one
   after the other.
2. In ordered mode each takes its own time, so that replicas run them in different orders.
3. A paused process runs nothing; what came due meanwhile runs after the continuation.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

from llft.core import events
from llft.core.determinizer.operations import Operation
from llft.instant import US
from llft.simulator.interfaces import Program
from llft.simulator.world import World

LONG_SERVICE_SHARE = 0.02
LONG_SERVICE_FACTOR = 20
"""So often, a thread computes for so many times as long."""

Run = tuple[bool, int, Any]
"""Is it a new thread; its number; its argument or the result it was waiting for."""


class Application:
    __slots__ = (
        "_deferred",
        "_fail",
        "_make_program",
        "_next_ticket",
        "_ordered",
        "_random",
        "_report",
        "_runs",
        "_service_ns",
        "_think_ns",
        "_token_free_ns",
        "_world",
        "paused",
        "program",
        "slowness",
    )

    def __init__(
        self,
        world: World,
        rng: random.Random,
        *,
        make_program: Callable[[], Program],
        report: Callable[[events.Event], None],
        fail: Callable[[str], None],
        service_ns: int,
        think_ns: Callable[[], int] | None,
        ordered: bool,
    ) -> None:
        self.program = make_program()
        self.paused = False
        self.slowness = 1
        self._world = world
        self._random = rng.random
        self._make_program = make_program
        self._report = report
        self._fail = fail
        self._service_ns = service_ns
        self._think_ns = think_ns
        self._ordered = ordered
        self._runs: dict[int, Run] = {}
        """By ticket, in the order of resumption. A ticket is never used twice, so what a
        forgotten application had scheduled finds nothing here."""
        self._next_ticket = 1
        self._deferred: list[int] = []
        self._token_free_ns = 0

    def schedule(self, run: Run) -> None:
        self._next_ticket = ticket = self._next_ticket + 1
        self._runs[ticket] = run
        draw = self._random()
        duration_ns = int((0.2 + draw) * self._service_ns) * self.slowness
        if draw < LONG_SERVICE_SHARE:
            duration_ns *= LONG_SERVICE_FACTOR
        if self._think_ns is not None:
            duration_ns += int(2 * draw * self._think_ns())
        due_ns = self._world.now_ns + duration_ns
        if not self._ordered:
            due_ns = max(due_ns, self._token_free_ns + duration_ns)
            self._token_free_ns = due_ns
        self._world.at(due_ns, self._run, ticket)

    def _run(self, ticket: int) -> None:
        if self.paused:
            self._deferred.append(ticket)
            return
        run = self._runs.pop(ticket, None)
        if run is None:
            return
        is_new, thread, value = run
        try:
            operation = (self.program.start_thread if is_new else self.program.resume)(thread, value)
        except Exception:  # noqa: BLE001 (a program that raises is evidence)
            self._fail(f"a call of thread {thread}")
            return
        self._called(thread, operation)

    def _called(self, thread: int, operation: Operation | None) -> None:
        if operation is None:
            self._report(events.ThreadEnded(thread))
        else:
            self._report(events.OperationInvoked(thread, operation))

    def go_on(self) -> None:
        self.paused = False
        tickets, self._deferred = self._deferred, []
        for ticket in tickets:
            self._world.at(self._world.now_ns + US, self._run, ticket)

    def forget(self) -> None:
        """Drop the program; a fresh one takes its place, unstarted."""
        self.program = self._make_program()
        self._runs.clear()
        self._token_free_ns = 0

    def end(self) -> None:
        """The process is gone; the program stays as it is, for the checkers."""
        self.paused = False
        self._runs.clear()

    def capture(self) -> bytes:
        return pickle.dumps((self.program.capture(), tuple(self._runs.values())), protocol=5)

    def restore(self, state: bytes) -> None:
        captured, runs = pickle.loads(state)
        self.forget()
        self.program.restore(captured)
        for run in runs:
            self.schedule(run)
