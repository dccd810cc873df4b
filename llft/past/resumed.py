"""Threads of a program that goes on where an earlier group ended (D-64): each makes its call once more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from llft.core import events
from llft.core.determinizer.clock import LocalClock
from llft.core.determinizer.operations import Operation
from llft.core.determinizer.resumption import resumption
from llft.identifiers import ThreadId
from llft.past.birth_log import BirthLog


class Caller(Protocol):
    """A thread of the program, and its last call."""

    number: ThreadId
    operation: Operation | None


class Program(Protocol):
    """What is needed of it here."""

    log: BirthLog

    @property
    def unstarted(self) -> Mapping[ThreadId, object]: ...
    @property
    def threads(self) -> Mapping[ThreadId, Caller]: ...
    @property
    def replaying(self) -> bool: ...
    def when_past_is_over(self, action: Callable[[], None]) -> None:
        """At once, if it is not in its past."""


class Resumed:
    def __init__(self, application: Program, step: Callable[[events.Event], None]) -> None:
        """`step`: of the core, with all that follows from it; not from within one."""
        self._application = application
        self._step = step
        self.calls: deque[events.Event] = deque()
        """Those that are to be made after the present step."""

    def started(
        self, readings: Mapping[int, int], local_clock: LocalClock, *, held: Mapping[int, ThreadId]
    ) -> events.Started:
        """What a new core is told, at the end of the program's past. `held`: mutexes of the core's."""
        application = self._application
        threads = application.threads.values()
        standing = {thread.number: thread.operation for thread in threads if thread.operation is not None}
        if not standing:
            return events.Started(alone=True)  # it has not come to its first call
        past = resumption(
            standing,
            application.unstarted,
            # A descriptor takes more than a byte of the log: none has had such a number.
            next_number=application.log.length + 1,
            readings=readings,
            local_clock=local_clock,
            held=held,
        )
        return events.Started(alone=True, past=past)

    def repeat(self, number: ThreadId) -> None:
        """A thread is to make its call once more, at whoever founded the group anew, and at whoever joined
        before it was this thread's turn. The latter may be in its past, and then it happens by itself."""
        if self._application.replaying:
            self._application.when_past_is_over(lambda: self._step(self._call_of(number)))
        else:
            self.calls.append(self._call_of(number))

    def _call_of(self, number: ThreadId) -> events.Event:
        operation = self._application.threads[number].operation
        assert operation is not None
        return events.OperationInvoked(number, operation)
