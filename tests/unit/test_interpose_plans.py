"""A wait with a plan (`interpose.watching`) is the wait that there would be without: the same questions to
the core, the same events, the same promises, whatever happens before and meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from llft.core.determinizer.operations import Operation, Park, Receive, Result, Select, Unpark
from llft.interpose import interests, passage, threads, watching
from llft.interpose.descriptors import Answered, Description, table
from llft.interpose.interests import READING, WRITING, Interests
from llft.interpose.reception import Arrival, Listener, reception
from llft.interpose.streams import Buffer, Local, Remote
from llft.interpose.tcp import TcpSocket
from llft.wire.preamble import NO_ADDRESS, Address

LISTENER, PIPE, FIRST = 1000, 1001, 1002
AF_INET = 2


class WaitsForEver(Exception):
    pass


class Program:
    """With a set of descriptors, in a world in which all is drawn: the same for the same seed."""

    def __init__(self, seed: int, *, may_plan: bool) -> None:
        self.draw = random.Random(seed)
        self.calm = self.draw.choice([1, 4, 16])
        self.has_threads = self.draw.random() < 0.5
        self.set = Interests(may_plan=may_plan)
        self.trace: list[object] = []
        self.buffer = Buffer()
        self.door = TcpSocket(AF_INET)
        self.door.listener = Listener(Address("127.0.0.1", 1))
        self.streams: dict[int, Remote] = {}
        """By numbers."""
        table.descriptions[LISTENER] = self.door
        table.descriptions[PIPE] = Local(self.buffer, None, is_socket=False)
        self.next_number, self.next_fd = FIRST, 1
        self.is_unparked = False
        for _ in range(self.draw.randint(1, 6)):
            self.connection_comes()
        for number in (LISTENER, PIPE):
            if self.draw.random() < 0.5:
                self.set.add(number, READING)

    def live(self, count: int) -> None:
        for _ in range(count):
            if self.draw.randrange(self.calm + 1):
                self.waits()
            else:
                self.something_happens()

    def waits(self) -> None:
        timeout_ns = self.draw.choice([-1, -1, -1, 0, 1000])
        self.trace.append((timeout_ns, self.set.wait(timeout_ns)))
        for number, stream in self.streams.items():
            if self.draw.random() < 0.5:
                self.trace.append(("reads", number))
                stream.receive(10, 0)

    def something_happens(self) -> None:
        happen: list[Callable[[], None]] = [
            *(self.connection_comes, self.connection_goes, self.connection_is_changed, self.reading_ends),
            *(self.pipe_fills, self.pipe_is_read, self.arrival_comes, self.arrival_goes, self.set_changes),
        ]
        self.draw.choice(happen)()

    # -- what may happen -------------------------------------------------------------------------------

    def connection_comes(self) -> None:
        stream = Remote(self.next_fd)
        socket = TcpSocket.arrived(AF_INET, Arrival(stream, NO_ADDRESS, NO_ADDRESS))
        table.descriptions[self.next_number] = socket
        self.streams[self.next_number] = stream
        self.set.add(self.next_number, READING)
        self.next_number, self.next_fd = self.next_number + 1, self.next_fd + 1

    def _number(self) -> int:
        return self.draw.choice([*self.streams, 0])

    def connection_goes(self) -> None:
        """It is closed, and the set is told, as an epoll object is."""
        number = self._number()
        if number:
            del self.streams[number], table.descriptions[number]
            if number in self.set.masks:
                self.set.drop(number)

    def connection_is_changed(self) -> None:
        number = self._number()
        if number:
            self.set.add(number, self.draw.choice([READING, READING, WRITING, READING | WRITING, 0]))

    def reading_ends(self) -> None:
        number = self._number()
        if number:
            self.streams[number].read_ended = True

    def pipe_fills(self) -> None:
        self.buffer.data += b"x"
        self.buffer.changed()

    def pipe_is_read(self) -> None:
        self.buffer.data.clear()

    def arrival_comes(self) -> None:
        assert self.door.listener is not None
        self.door.listener.arrivals.append(Arrival(Remote(900), NO_ADDRESS, NO_ADDRESS))
        self.door.listener.changed()

    def arrival_goes(self) -> None:
        assert self.door.listener is not None
        self.door.listener.arrivals.clear()

    def set_changes(self) -> None:
        number = self.draw.choice([LISTENER, PIPE])
        if number in self.set.masks:
            self.set.drop(number)
        else:
            self.set.add(number, READING)

    # -- the core --------------------------------------------------------------------------------------

    def call(self, operation: Operation) -> Result:
        self.trace.append(operation)
        if isinstance(operation, Park):
            if operation.timeout_ns >= 0:
                return False
            if not self.has_threads:
                raise WaitsForEver
            self.pipe_fills()
            self.connection_comes()
            self.is_unparked = False
            return True
        if isinstance(operation, Unpark):
            self.is_unparked = True
            return None
        assert isinstance(operation, Receive)
        return b"" if operation.blocking else b"x"

    def advance(self, answered: Answered) -> None:
        """Whoever is at the door comes in, or has left again."""
        if 0 in answered.readable:
            answered.readable.discard(0)
            if self.draw.random() < 0.5:
                self.arrival_comes()

    def select(self, operation: Select) -> Result:
        self.trace.append(operation)
        if self.has_threads and operation.timeout_ns and self.draw.random() < 0.2:
            self.something_happens()
        if self.is_unparked and operation.timeout_ns:
            self.is_unparked = False
            return None
        some = [fd for fd in (*operation.fds, *(-fd for fd in operation.writing)) if self.draw.random() < 0.4]
        if not some and operation.timeout_ns < 0:
            some = [*operation.fds, *(-fd for fd in operation.writing)][:1]
        some.sort(key=lambda fd: (fd < 0, self.draw.random()))
        return tuple(some)


def lived(seed: int, monkeypatch: pytest.MonkeyPatch, *, may_plan: bool) -> list[object]:
    descriptions: dict[int, Description] = {}
    monkeypatch.setattr(table, "descriptions", descriptions)
    program = Program(seed, may_plan=may_plan)
    monkeypatch.setattr(passage, "call", program.call)
    monkeypatch.setattr(passage, "select", program.select)
    monkeypatch.setattr(passage, "ordered", False)
    monkeypatch.setattr(threads, "count", lambda: int(program.has_threads))
    monkeypatch.setattr(interests, "interruptible", lambda: False)
    monkeypatch.setattr(reception, "advance", program.advance)
    with suppress(WaitsForEver):
        program.live(60)
    return program.trace


@pytest.mark.parametrize("seed", range(200))
def test_the_same_happens_without_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lived(seed, monkeypatch, may_plan=True) == lived(seed, monkeypatch, may_plan=False)


def test_there_are_plans_and_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Result] = []
    ask = watching.Plan.ask

    def counted(self: watching.Plan, timeout_ns: int, also: object) -> Result:
        used.append(ask(self, timeout_ns, also))  # type: ignore[arg-type]
        return used[-1]

    monkeypatch.setattr(watching.Plan, "ask", counted)
    for seed in range(200):
        lived(seed, monkeypatch, may_plan=True)
    assert len(used) > 1000
    assert None in used, "one was disturbed"
    assert any(isinstance(answer, tuple) and 0 in answer for answer in used), "somebody was at the door"
