"""Threads of a program that goes on where an earlier group ended (D-64): each makes its call once more."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
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
    def start(self, number: ThreadId, key: str) -> None: ...


class Resumed:
    def __init__(self, application: Program) -> None:
        self._application = application
        self._standing: dict[ThreadId, None] = {}
        """Threads whose calls nobody knows of."""
        self.calls: deque[events.Event] = deque()
        """Those that are to be made now."""

    def started(
        self, readings: Mapping[int, int], local_clock: LocalClock, *, held: Mapping[int, ThreadId]
    ) -> events.Started:
        """What a new core is told, at the end of the program's past. `held`: mutexes of the core's."""
        application = self._application
        threads = application.threads.values()
        standing = sorted(thread.number for thread in threads if thread.operation is not None)
        if not standing:
            return events.Started(alone=True)  # it has not come to its first call
        self._standing = dict.fromkeys(standing)
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

    def start(self, number: ThreadId, key: str) -> None:
        """A thread is to begin; or it stands in a call, and is to make it."""
        if number not in self._standing:
            self._application.start(number, key)
            return
        del self._standing[number]
        operation = self._application.threads[number].operation
        assert operation is not None
        self.calls.append(events.OperationInvoked(number, operation))
