"""How a dialogue waits (`llft/dialogue/waiting.c`): in the socket that hears while messages come briskly."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.determinizer.operations import Operation, RandomBytes, ReadClock, Receive, Send
from llft.instant import MS
from llft.wire.messages import MessageFlag
from tests.unit.dialogue_native import native  # noqa: F401
from tests.unit.dialogue_world import SECOND, World

pytestmark = pytest.mark.reference


def new_world() -> World:
    made = World()
    made.primary.talks = True
    made.primary.core.pause_ns = SECOND
    return made


@pytest.fixture
def world(native: Any) -> Iterator[World]:  # noqa: F811
    made = new_world()
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


def first_of_two() -> bytes:
    """What a call gets that sleeps until two messages come."""
    world = new_world()
    primary, came = world.primary, []
    primary.lasts_ns = 100 * SECOND
    be_brisk(world)
    for text in (b"and", b"again"):
        world.client.call(Send(1, text))
        came.append(primary.heard.popleft())
    later = threading.Timer(0.002, lambda: [primary.line.put(data) for data in came])
    later.start()
    try:
        assert primary.talk(Receive(1, 100))
        first: bytes = primary.result
        later.join()
        if first == b"and":
            assert primary.talk(Receive(1, 100))
            assert primary.result == b"again"
    finally:
        later.join()
        world.close()
    return first


def test_of_one_alone_a_message_is_taken_at_a_time(native: Any) -> None:  # noqa: F811
    """Of those that it sleeps for. A machine that is busy may make it look at more."""
    until_s = time.monotonic() + 10
    while (first := first_of_two()) != b"and":
        assert first == b"andagain"
        assert time.monotonic() < until_s


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


def hears(world: World, text: bytes) -> bool:
    says(world, text)
    return world.primary.talk(Receive(1, 100)) and world.primary.talk(Send(1, b"yes"))


def says_more_of_itself(world: World) -> None:
    """A Heartbeat with a flag, which only the core understands."""
    world.backup.core.intra.send_heartbeat(MessageFlag.ON_DISK)
    world.backup.perform(world.backup.core.drain())


def test_what_members_say_of_themselves_can_wait_while_messages_come(world: World) -> None:
    """Such Heartbeats do not end it, and are not lost."""
    primary = world.primary
    be_brisk(world)
    primary.take_back()
    primary.dialogues.patience_ns = SECOND
    says_more_of_itself(world)
    beat = list(primary.heard)
    primary.heard.clear()
    assert beat
    be_brisk(world)
    for data in beat:
        primary.line.put(data)
    rounds = 0
    while rounds < 20 and hears(world, b"more"):
        rounds += 1
    assert rounds == 20
    assert primary.take_back() == len(beat)
    assert list(primary.heard)[: len(beat)] == beat


def test_they_end_it_when_nothing_comes_for_a_moment(world: World) -> None:
    primary = world.primary
    primary.lasts_ns = 10 * SECOND
    says_more_of_itself(world)
    beat = list(primary.heard)
    primary.heard.clear()
    be_brisk(world)
    for data in beat:
        primary.line.put(data)
    began_s = time.monotonic()
    assert not primary.talk(Receive(1, 100))
    assert time.monotonic() - began_s < 2
    assert primary.take_back() == len(beat)


def test_who_waits_in_the_socket_leaves_for_its_deadline(world: World) -> None:
    """A few milliseconds late, if nothing comes."""
    primary = world.primary
    primary.lasts_ns = SECOND // 50
    be_brisk(world)
    began_s = time.monotonic()
    assert not primary.talk(Receive(1, 100))
    assert time.monotonic() - began_s < 1


def late_by_ns(patience_ns: int) -> int:
    """How long after its deadline it leaves, though messages come."""
    world = new_world()
    primary = world.primary
    primary.lasts_ns, primary.dialogues.patience_ns = 3 * MS, patience_ns
    try:
        due_ns = time.monotonic_ns() + primary.lasts_ns
        assert primary.lend()
        says(world, b"one")
        while primary.talk(Receive(1, 100)) and primary.talk(Send(1, b"yes")):
            says(world, b"more")
        return time.monotonic_ns() - due_ns
    finally:
        world.close()


@pytest.mark.parametrize("can_wait", [True, False])
def test_a_beat_can_wait_while_messages_come(native: Any, can_wait: bool) -> None:  # noqa: F811
    """If somebody else beats meanwhile. A machine that is busy makes one leave sooner, or later."""
    until_s = time.monotonic() + 10
    while (late_by_ns(100 * SECOND if can_wait else 0) > 2 * MS) != can_wait:
        assert time.monotonic() < until_s


def test_what_is_heard_by_one_whose_call_is_taken_away_is_kept(world: World, native: Any) -> None:  # noqa: F811
    """It waits in the socket, and learns of that by what it hears."""
    primary = world.primary
    primary.lasts_ns = 100 * SECOND
    be_brisk(world)
    primary.take_back()
    world.client.hear()
    world.client.call(Send(1, b"more"))
    came = primary.heard.popleft()
    waits = threading.Event()

    def take_away() -> None:
        while not native.is_waiting():
            waits.wait(0.0005)
        primary.take_back()
        primary.line.put(came)

    other = threading.Thread(target=take_away)
    assert primary.lend()
    other.start()
    try:
        assert native.receive(1, 100, True) is native.HANDED
    finally:
        other.join()
    primary.dialogues.was_noticed()
    assert list(primary.heard) + primary.line.rest() == [came]


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


MADE_AT_ONCE = [ReadClock(0), RandomBytes(4), Receive(1, 9, blocking=False)]


@pytest.mark.parametrize("operation", MADE_AT_ONCE)
def test_a_call_that_needs_nobody_does_not_end_it_for_a_collection(
    world: World,
    native: Any,  # noqa: F811
    operation: Operation,
) -> None:
    """A program that makes many of them would come to one with almost every request."""
    primary, made = world.primary, []

    def collect() -> None:
        made.append((native.calls(), primary.is_talking))
        native.set_calls(0)

    assert primary.call(operation), "the first of its kind goes the usual way"
    assert primary.lend()
    native.set_calls(0)
    native.begin([], 4)
    native.collect_with(collect)
    try:
        assert all(primary.talk(operation) for _ in range(10))
        assert made == [(4, True), (4, True)]
        assert native.calls() == 2
        assert primary.is_talking
    finally:
        native.collect_with(int)
        native.begin([], 1 << 30)


@pytest.mark.parametrize("operation", MADE_AT_ONCE)
def test_what_a_collection_behind_it_raises_is_the_program_s_too(
    world: World,
    native: Any,  # noqa: F811
    operation: Operation,
) -> None:
    def fail() -> None:
        native.set_calls(0)
        raise InterruptedError("a handler")

    primary = world.primary
    assert primary.call(operation)
    recorded = primary.core.messaging.lane.encoder.count
    assert primary.lend()
    native.set_calls(0)
    native.begin([], 1)
    native.collect_with(fail)
    try:
        with pytest.raises(InterruptedError):
            primary.talk(operation)
    finally:
        native.collect_with(int)
        native.begin([], 1 << 30)
    primary.take_back()
    assert primary.core.messaging.lane.encoder.count == recorded + 1, "the call was made"


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
