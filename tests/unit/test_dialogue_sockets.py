"""Sockets that speak for themselves in a dialogue (`dialogue/socket.c`): the rest is Python's business."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.determinizer.operations import Receive, Send
from llft.interpose import counting
from llft.interpose.streams import Remote
from llft.interpose.tcp import TcpSocket
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import World
from tests.unit.test_dialogue_edges import talking_thread

pytestmark = pytest.mark.reference

USUAL = b"the usual way"


class Speaker:
    """What C asks of a socket, with Python's way beside it."""

    __slots__ = ("_description", "_number", "_timeout_ns")

    def __init__(self, description: object) -> None:
        self._description, self._number, self._timeout_ns = description, 3, -1

    def recv(self, size: int, flags: int = 0) -> bytes:
        return USUAL

    def send(self, data: bytes) -> int:
        return 0

    def sendall(self, data: bytes) -> None:
        return None


class Stream:
    """What C asks of its stream."""

    def __init__(self, *, promised: bool = False) -> None:
        self._promised = promised


_speaking: list[type] = []
"""C takes one type, for as long as the process lives."""


@pytest.fixture
def world(native: Any) -> Iterator[World]:
    if not _speaking:
        native.speak_for(Speaker)
        _speaking.append(Speaker)
    made = World()
    made.primary.talks = True
    made.client.call(Send(1, b"hello again"))
    yield made
    made.close()


def test_a_known_socket_hears_by_itself(world: World, native: Any) -> None:
    speaker = Speaker(object())
    assert speaker.recv(100) == USUAL
    assert world.primary.lend()
    world.primary.feed(1)
    native.know(speaker._description, Stream(), 1)
    assert speaker.recv(100) == b"hello again"


@pytest.mark.parametrize("size", [1 << 63, 1 << 70, -1, 0, -1 << 70])
def test_a_size_that_is_none_of_cs_goes_the_usual_way(world: World, native: Any, size: int) -> None:
    """Else the program would get an exception at the replicas where a dialogue is lent, and nowhere else."""
    speaker = Speaker(object())
    assert world.primary.lend()
    world.primary.feed(1)
    native.know(speaker._description, Stream(), 1)
    assert speaker.recv(size) == USUAL
    assert native.receive(1, size, True) is None
    assert speaker.recv(100) == b"hello again"


@pytest.mark.parametrize("timeout_ns", [1, 1 << 62, 1 << 63, 1 << 70])
def test_a_socket_with_any_timeout_goes_the_usual_way(world: World, native: Any, timeout_ns: int) -> None:
    speaker = Speaker(object())
    assert world.primary.lend()
    world.primary.feed(1)
    native.know(speaker._description, Stream(), 1)
    speaker._timeout_ns = timeout_ns
    assert speaker.recv(100) == USUAL


def test_a_socket_that_does_not_wait_finds_nothing_or_what_is_there(native: Any, world: World) -> None:
    wide = World(connections=2)
    wide.primary.talks = True
    speaker, stream = Speaker(object()), Stream()
    speaker._timeout_ns = 0
    assert wide.primary.lend(Receive(2, 100))
    native.know(speaker._description, stream, 2)
    with pytest.raises(BlockingIOError):
        speaker.recv(100)
    client, number = wide.ends[2]
    client.call(Send(number, b"hello again"))
    wide.primary.feed(1)
    stream._promised = True
    assert speaker.recv(100) == b"hello again"
    assert not stream._promised
    assert speaker.send(b"well") == 4
    wide.close()


@pytest.mark.parametrize("timeout_ns", [-1, 0, 5])
def test_a_read_that_says_that_it_will_not_wait_is_made_without_python(
    world: World, native: Any, timeout_ns: int
) -> None:
    speaker = Speaker(object())
    speaker._timeout_ns = timeout_ns
    wide = World(connections=2)
    wide.primary.talks = True
    assert wide.primary.lend(Receive(2, 100))
    native.know(speaker._description, Stream(), 2)
    with pytest.raises(BlockingIOError):
        speaker.recv(100, socket.MSG_DONTWAIT)
    assert speaker.recv(100, socket.MSG_PEEK) == USUAL
    assert speaker.recv(100, socket.MSG_DONTWAIT | socket.MSG_WAITALL) == USUAL
    assert speaker.recv(100, 1 << 70) == USUAL
    wide.close()


def test_what_is_raised_behind_a_read_leaves_no_promise(world: World, native: Any) -> None:
    """A handler's exception, say. The read was made, at this replica as at the others."""

    def fail() -> None:
        native.set_calls(0)
        raise InterruptedError("a handler")

    speaker, stream = Speaker(object()), Stream(promised=True)
    assert world.primary.lend()
    world.primary.feed(1)
    native.know(speaker._description, stream, 1)
    native.set_calls(0)
    native.begin([], 1)
    native.collect_with(fail)
    try:
        with pytest.raises(InterruptedError, match="a handler"):
            speaker.recv(100)
    finally:
        native.collect_with(int)
        native.begin([], 1 << 30)
    assert not stream._promised


def test_what_was_shut_down_stays_at_its_end(
    world: World, native: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that asks once more is told the same, and not what has come since."""
    monkeypatch.setattr(counting, "native", native)
    tcp = TcpSocket(socket.AF_INET)
    tcp.stream = Remote(1)
    assert world.primary.lend()
    world.primary.feed(1)
    counting.know(tcp, tcp.stream, 1)
    tcp.shutdown(socket.SHUT_RD)
    assert tcp.receive(100, -1) == b""
    assert Speaker(tcp).recv(100) == USUAL


def test_who_wakes_while_its_dialogue_is_taken_back_hears_nothing(world: World, native: Any) -> None:
    """What runs then lets other threads run, too."""
    primary = world.primary

    class Receiving(Stream):
        counted = 0

        def begin_receiving(self) -> None:
            self.counted += 1
            primary.feed(1)
            time.sleep(0.1)

        def resume_receiving(self) -> bytes:
            self.counted -= 1
            return b"resumed"

    stream, speaker = Receiving(), Speaker(object())

    def call() -> bytes:
        native.know(speaker._description, stream, 1)
        return speaker.recv(77)

    thread, found = talking_thread(primary, call)
    primary.dialogues.take_back()
    thread.join(10)
    assert found == [b"resumed"]
    assert stream.counted == 0
    assert primary.handed == [Receive(1, 77)]
