"""How a dialogue waits (`llft/dialogue/waiting.c`): in the socket that hears while messages come briskly."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.determinizer.operations import Receive, Send
from tests.unit.dialogue_native import native  # noqa: F401
from tests.unit.dialogue_world import SECOND, World


@pytest.fixture
def world(native: Any) -> Iterator[World]:  # noqa: F811
    made = World()
    made.primary.talks = True
    made.primary.core.pause_ns = SECOND
    yield made
    made.close()


def says(world: World, text: bytes) -> None:
    world.client.hear()
    world.client.call(Send(1, text))
    world.primary.feed(1)


def be_brisk(world: World) -> None:
    assert world.primary.lend()
    for text in (b"one", b"two", b"three"):
        says(world, text)
        assert world.primary.talk(Receive(1, 100))
        assert world.primary.talk(Send(1, text))


def test_what_is_there_already_is_taken_at_once(world: World) -> None:
    primary = world.primary
    be_brisk(world)
    says(world, b"and")
    says(world, b"again")
    heard = b""
    while len(heard) < len(b"andagain"):  # a machine that is busy may make it wait all the same
        assert primary.talk(Receive(1, 100))
        heard += primary.result
    assert heard == b"andagain"


def test_of_one_alone_a_message_is_taken_at_a_time(world: World) -> None:
    """Of those that it waits for."""
    primary, came = world.primary, []
    primary.lasts_ns = 100 * SECOND
    be_brisk(world)
    for text in (b"and", b"again"):
        world.client.call(Send(1, text))
        came.append(primary.heard.popleft())
    later = threading.Timer(0.002, lambda: [primary.line.put(data) for data in came])
    later.start()
    assert primary.talk(Receive(1, 100))
    assert primary.result == b"and"
    later.join()
    assert primary.talk(Receive(1, 100))
    assert primary.result == b"again"
    assert not primary.line.rest()


def test_what_else_comes_is_seen_to_while_messages_come(world: World, native: Any) -> None:  # noqa: F811
    """Not for each message, but soon."""
    primary = world.primary
    be_brisk(world)
    primary.line.wake()
    began_s, rounds = time.monotonic(), 0
    while True:
        assert time.monotonic() < began_s + 5
        says(world, b"more")
        if not primary.talk(Receive(1, 100)):
            break
        rounds += 1
        primary.talk(Send(1, b"yes"))
    assert rounds
    assert time.monotonic() - began_s < 1
    assert native.dialogue_statistics()["others"]


def test_who_waits_in_the_socket_leaves_for_its_deadline(world: World) -> None:
    """A few milliseconds late, if nothing comes."""
    primary = world.primary
    primary.lasts_ns = SECOND // 50
    be_brisk(world)
    began_s = time.monotonic()
    assert not primary.talk(Receive(1, 100))
    assert time.monotonic() - began_s < 1


def test_a_beat_can_wait_while_messages_come(world: World) -> None:
    """Somebody else beats meanwhile."""
    primary = world.primary
    primary.lasts_ns, primary.dialogues.patience_ns = SECOND // 50, 100 * SECOND
    be_brisk(world)
    until_s = time.monotonic() + 3 * primary.lasts_ns / SECOND
    rounds = 0
    while time.monotonic() < until_s:
        says(world, b"more")
        if not primary.talk(Receive(1, 100)):
            break  # this machine was busy with others
        rounds += 1
        assert primary.talk(Send(1, b"yes"))
    assert rounds
    if primary.is_talking:
        assert not primary.talk(Receive(1, 100)), "it was due long ago"


def test_who_has_left_makes_no_more_calls(world: World) -> None:
    """What it left for is to be seen to first."""
    primary = world.primary
    primary.lasts_ns = 100 * SECOND
    assert primary.lend()
    world.client.call(Send(1, b"one"))
    again = primary.heard[0]
    primary.feed(1)
    assert primary.talk(Receive(1, 100))
    world.client.call(Send(1, b"two"))
    primary.heard.appendleft(again)
    primary.feed(2)
    assert not primary.talk(Receive(1, 100))
    assert not primary.talk(Receive(1, 100))
    assert primary.take_back()


def test_who_waits_in_the_socket_leaves_for_a_signal(world: World) -> None:
    """Its handler is the program's, and is run by it."""
    caught: list[int] = []
    primary = world.primary
    primary.lasts_ns = 100 * SECOND
    before = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    main = threading.main_thread().ident
    assert main is not None
    sender = threading.Timer(0.02, lambda: signal.pthread_kill(main, signal.SIGUSR1))
    try:
        be_brisk(world)
        sender.start()
        assert not primary.talk(Receive(1, 100))
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert caught


def test_a_collection_is_made_behind_its_call(world: World, native: Any) -> None:  # noqa: F811
    """And does not end the dialogue: as many calls are between two of them as the usual way."""
    primary, made = world.primary, []

    def collect() -> None:
        made.append((native.calls(), primary.is_talking, len(primary.line.said())))
        native.set_calls(0)

    native.set_calls(0)
    native.begin([], 3)
    native.collect_with(collect)
    try:
        be_brisk(world)
        assert [(calls, talks) for calls, talks, _ in made] == [(3, True), (3, True)]
        assert native.calls() == 0
        assert primary.is_talking
    finally:
        native.collect_with(int)
        native.begin([], 1 << 30)


def test_what_a_collection_raises_is_the_program_s(world: World, native: Any) -> None:  # noqa: F811
    """A handler that was due, say; the call was made."""

    def fail() -> None:
        native.set_calls(0)
        raise InterruptedError("a handler")

    primary = world.primary
    assert primary.lend()
    native.set_calls(0)
    native.begin([], 1)
    native.collect_with(fail)
    try:
        with pytest.raises(InterruptedError):
            native.send(1, b"hello", True)
    finally:
        native.collect_with(int)
        native.begin([], 1 << 30)
    primary.take_back()
    assert primary.core.messaging.table.by_fd[1].sent[-1].payload == b"hello"
