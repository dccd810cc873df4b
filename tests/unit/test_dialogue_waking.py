"""Who is woken in a dialogue, and by what (`llft/dialogue/waiting.c`): a primary by the answer to a question
only if it has another one to ask, a backup that rests by what is sent to it alone."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.config import Limits
from llft.core.determinizer.operations import Receive, Send
from llft.instant import MS
from llft.wire.codec import decode
from llft.wire.messages import MessageFlag, MessageType
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import SECOND, Server, World

pytestmark = pytest.mark.reference


def new_world() -> World:
    made = World(Limits(), level=1, has_third=True)
    made.primary.talks = True
    made.primary.lasts_ns = made.backup.lasts_ns = 10 * SECOND
    made.client.call(Send(1, b"a question"))
    return made


@pytest.fixture
def world(native: Any) -> Iterator[World]:
    made = new_world()
    yield made
    made.close()


def is_question(data: bytes) -> bool:
    return decode(data).header.flags == MessageFlag.COMMITS


def reply(world: World, native: Any) -> None:
    """The primary hears a request in a dialogue, and answers: what it says is on its way."""
    primary = world.primary
    assert primary.lend()
    primary.feed(len(primary.heard))
    assert primary.talk(Receive(1, 100))
    assert native.send(1, b"an answer", True)
    for group_id, data in primary.line.said():
        if is_question(data):
            world.backup.heard.append(data)
        else:
            world.multicast(primary, group_id, data)


def held(world: World) -> bytes:
    """The backup's answer to the question."""
    world.backup.hear()
    found = world.primary.heard.pop()
    assert decode(found).header.message_type == MessageType.HELD
    return found


def request(world: World) -> bytes:
    world.client.hear()
    assert world.client.call(Send(1, b"another question"))
    return world.primary.heard.pop()


# -- at a primary ------------------------------------------------------------------------------------


def wakes_in_turn(native: Any) -> int:
    """How often it is woken by the answer, and a request behind it."""
    world = new_world()
    try:
        reply(world, native)
        primary, before = world.primary, native.dialogue_statistics()["woken"]
        comes = [
            threading.Timer(0.001, primary.line.put, [held(world)]),
            threading.Timer(0.002, primary.line.put, [request(world)]),
        ]
        for each in comes:
            each.start()
        assert primary.talk(Receive(1, 100))
        for each in comes:
            each.join()
        woken: int = native.dialogue_statistics()["woken"] - before
        assert native.send(1, b"another answer", True)
        question = decode(primary.line.said()[0][1])
        assert question.header.flags == MessageFlag.COMMITS
        assert question.order_start == world.backup.core.messaging.lane.orders.end, "the answer was heard"
        return woken
    finally:
        world.close()


def test_an_answer_wakes_nobody_who_has_nothing_more_to_ask(native: Any) -> None:
    """It is taken with the next request. A machine that is busy may make it wait so long that it looks."""
    until_s = time.monotonic() + 10
    while wakes_in_turn(native) != 1:
        assert time.monotonic() < until_s


def test_an_answer_that_the_next_question_waits_for_is_taken_at_once(world: World, native: Any) -> None:
    reply(world, native)
    primary = world.primary
    assert native.send(1, b"and more", True)
    assert [decode(data).header.message_type for _, data in primary.line.said()] == [MessageType.REPLY]
    primary.line.put(held(world))
    said: list[bytes] = []

    def look() -> None:
        while not said:
            said.extend(data for _, data in primary.line.said())
        primary.line.wake()

    other = threading.Thread(target=look)
    other.start()
    assert native.receive(1, 100, True) is None
    other.join()
    assert is_question(said[0])


def test_an_answer_that_is_there_is_not_overdue(world: World, native: Any) -> None:
    """Though nobody was woken by it, and nothing else comes for long."""
    primary = world.primary
    primary.core.asking.patience_ns = 40 * MS
    reply(world, native)
    primary.line.put(held(world))
    later = threading.Timer(0.1, primary.line.put, [request(world)])
    later.start()
    assert primary.talk(Receive(1, 100))
    assert primary.result == b"another question"
    later.join()


# -- at a backup -------------------------------------------------------------------------------------


def rest(world: World, lazy_ns: int) -> Server:
    world.primary.take_back()
    world.primary.talks, world.backup.talks = False, True
    backup = world.backup
    backup.dialogues.lazy_ns = lambda now_ns: lazy_ns
    assert backup.lend()
    return backup


def test_who_rests_is_woken_by_a_question(world: World, native: Any) -> None:
    reply(world, native)
    backup = rest(world, lazy_ns=900 * MS)
    later = threading.Timer(0.02, lambda: backup.feed(len(backup.heard)))
    later.start()
    begun_s = time.monotonic()
    assert backup.talk(Receive(1, 100))
    assert time.monotonic() - begun_s < 0.5
    assert decode(world.primary.heard[-1]).header.message_type == MessageType.HELD
    later.join()


def test_who_has_rested_looks_at_what_has_come_to_all(world: World, native: Any) -> None:
    reply(world, native)
    backup = rest(world, lazy_ns=100 * MS)
    comes = list(backup.heard)
    backup.heard.clear()
    [asked] = [data for data in comes if is_question(data)]
    for data in comes:
        if decode(data).header.message_type == MessageType.REQUEST:
            backup.line.put(data)
    before = native.dialogue_statistics()["woken"]
    later = threading.Timer(0.3, backup.line.put, [asked])
    begun_s = time.monotonic()
    later.start()
    assert backup.talk(Receive(1, 100))
    assert time.monotonic() - begun_s > 0.1
    assert native.dialogue_statistics()["woken"] == before + 2
    later.join()


def test_who_rests_leaves_for_a_signal(world: World, native: Any) -> None:
    caught: list[int] = []
    reply(world, native)
    rest(world, lazy_ns=900 * MS)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    main = threading.main_thread().ident
    assert main is not None
    sender = threading.Timer(0.02, lambda: signal.pthread_kill(main, signal.SIGUSR1))
    begun_s = time.monotonic()
    sender.start()
    try:
        assert native.receive(1, 100, True) is None
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert caught
    assert time.monotonic() - begun_s < 0.5
