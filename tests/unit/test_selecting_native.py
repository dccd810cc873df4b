"""Sets of descriptors in C (`dialogue/selecting.c`): what is found there is what Python would find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.determinizer.operations import Select, Send
from llft.interpose import interests, selecting
from llft.interpose.descriptors import table
from llft.interpose.interests import READING, WRITING, Interests
from llft.interpose.reception import Arrival, Listener, reception
from llft.interpose.streams import Buffer, Local, Remote
from llft.interpose.tcp import TcpSocket
from llft.wire.preamble import NO_ADDRESS, Address
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import SECOND, World

pytestmark = pytest.mark.reference

AF_INET = 2
CONNECTIONS, DOOR, PIPE = (1001, 1002, 1003), 1004, 1005


class Epoll:
    """What C asks of an epoll object, with Python's way beside it."""

    def __init__(self) -> None:
        self._interests, self._number = Interests(may_plan=False), 3
        self.usual_count = 0

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        self.usual_count += 1
        return []


class Program:
    """Three connections, a listener and a pipe, in a world that its thread has a dialogue of."""

    def __init__(self, native: Any) -> None:
        self.world = World(connections=3)
        self.primary = self.world.primary
        self.primary.talks, self.primary.lasts_ns = True, 100 * SECOND
        self.epoll, self.buffer, self.usual_selects = Epoll(), Buffer(), 0
        self.streams = [Remote(fd) for fd in self.world.fds]
        for number, stream in zip(CONNECTIONS, self.streams, strict=True):
            socket = TcpSocket.arrived(AF_INET, Arrival(stream, NO_ADDRESS, NO_ADDRESS))
            table.descriptions[number] = socket
        self.door = TcpSocket(AF_INET)
        self.door.listener = Listener(Address("127.0.0.1", 1))
        table.descriptions[DOOR] = self.door
        table.descriptions[PIPE] = Local(self.buffer, None, is_socket=False)
        self.has_company = False
        type(self.epoll).poll = Epoll_poll  # type: ignore[method-assign]
        self.select = native.select_for(
            *(TcpSocket, Remote, Local, table.descriptions, reception.hall, lambda: self.has_company),
            *(self._ask, Interests.go_on, selecting._select_on, self._usual_select, Epoll),
        )
        assert self.primary.lend(Select((0, *self.world.fds), -1, (), interruptible=True))

    def _usual_select(self, *arguments: Any) -> None:
        self.usual_selects += 1

    def _ask(self, made: object, fds: tuple[int, ...], writing: tuple[int, ...]) -> tuple[int, ...]:
        return ()

    def hear(self, *places: int) -> None:
        for place in places:
            client, number = self.world.ends[self.world.fds[place]]
            assert client.call(Send(number, b"something"))
        self.primary.feed(len(self.primary.heard))

    def close(self) -> None:
        for number in (*CONNECTIONS, DOOR, PIPE):
            table.descriptions.pop(number, None)
        self.primary.take_back()
        self.world.close()


Epoll_poll = Epoll.poll


@pytest.fixture
def program(native: Any) -> Iterator[Program]:
    made = Program(native)
    yield made
    made.close()


def test_those_are_found_that_something_has_come_for_in_their_order(program: Program) -> None:
    for number in (CONNECTIONS[2], DOOR, PIPE, CONNECTIONS[0], CONNECTIONS[1]):
        program.epoll._interests.put(number, READING)
    program.hear(0, 2)
    found = program.epoll.poll(-1, 5)
    assert found == [(CONNECTIONS[2], READING), (CONNECTIONS[0], READING)]
    assert [stream._promised for stream in program.streams] == [True, False, True]
    assert program.epoll.poll(None, 1) == found[:1]
    assert not program.epoll.usual_count


def test_what_is_inside_the_program_is_found_without_asking(program: Program) -> None:
    for number in (PIPE, DOOR, CONNECTIONS[0]):
        program.epoll._interests.put(number, READING)
    program.buffer.data += b"x"
    assert program.epoll.poll(-1) == [(PIPE, READING)]
    program.hear(0)
    assert program.epoll.poll(-1) == [(PIPE, READING), (CONNECTIONS[0], READING)]
    assert program.door.listener is not None
    program.door.listener.arrivals.append(Arrival(Remote(900), NO_ADDRESS, NO_ADDRESS))
    assert program.epoll.poll(-1) == [(PIPE, READING), (DOOR, READING), (CONNECTIONS[0], READING)]
    assert not program.epoll.usual_count


def test_the_same_with_select_and_what_can_be_written(program: Program) -> None:
    program.hear(1)
    reading, writing = [*CONNECTIONS, DOOR], (CONNECTIONS[0],)
    assert program.select(reading, (), [], 1) == ([CONNECTIONS[1]], [], [])
    assert program.select(reading, writing, [], 0.0) == ([CONNECTIONS[1]], [CONNECTIONS[0]], [])
    assert not program.usual_selects
    program.epoll._interests.put(CONNECTIONS[1], READING | WRITING)
    assert program.epoll.poll(-1) == [(CONNECTIONS[1], READING | WRITING)]


def test_a_time_that_passes_finds_nothing(program: Program) -> None:
    assert program.select(list(CONNECTIONS), [], [], 0.002) == ([], [], [])
    program.epoll._interests.put(CONNECTIONS[1], READING)
    assert program.epoll.poll(0.002) == []
    assert not program.usual_selects + program.epoll.usual_count


def test_whoever_waits_beside_others_is_watched_for(program: Program, native: Any) -> None:
    """As long as it waits: whoever changes a pipe, or the set, lets it know."""
    seen: list[dict[int, None]] = []
    program.has_company = True
    native.i_am(7)
    program.epoll._interests.put(PIPE, READING)
    program.epoll._interests.put(CONNECTIONS[1], READING)
    program._ask = lambda *asked: seen.append(dict(program.buffer.watchers)) or ()  # type: ignore
    assert program.epoll.poll(0.002) == []
    assert program.buffer.watchers == program.epoll._interests.watchers == {}
    native.i_am(0)


@pytest.mark.parametrize("change", ["closed", "ended", "hall", "two numbers", "once", "unknown", "file"])
def test_what_is_out_of_the_ordinary_is_pythons_business(program: Program, change: str) -> None:
    epoll, (first, second, _) = program.epoll, CONNECTIONS
    epoll._interests.put(first, READING)
    if change == "closed":
        epoll._number = -1
    elif change == "ended":
        program.streams[0].read_ended = True
    elif change == "hall":
        epoll._interests.put(DOOR, READING)
        reception.hall[99] = b""
    elif change == "two numbers":
        table.descriptions[second] = table.descriptions[first]
        epoll._interests.put(second, READING)
    elif change == "once":
        epoll._interests.put(second, READING | 1 << 30)
    elif change == "unknown":
        epoll._interests.put(77, READING)
    else:
        table.descriptions[second] = interests._ALWAYS_READY
        epoll._interests.put(second, READING)
    assert epoll.poll(0) == []
    reception.hall.clear()
    assert epoll.usual_count == 1


@pytest.mark.parametrize(
    "arguments", [("x", [], []), ([], [], []), ([1001], [], [], -1), ([1001], [], [], "x")]
)
def test_so_are_arguments_that_are(program: Program, arguments: Any) -> None:
    program.select(*arguments)
    assert program.usual_selects == 1


def test_nothing_is_found_where_no_dialogue_is(program: Program) -> None:
    program.epoll._interests.put(CONNECTIONS[0], READING)
    program.primary.take_back()
    assert program.epoll.poll(-1) == []
    assert program.epoll.usual_count == 1
