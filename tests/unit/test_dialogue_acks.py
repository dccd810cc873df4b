"""A primary that is slow to answer says by a KeepAlive what it has received (`llft/dialogue/acks.c`)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from llft.core import events
from llft.core.determinizer.operations import Receive, Select, Send
from llft.instant import MS
from llft.wire.codec import decode
from llft.wire.messages import Header, MessageType
from tests.unit import dialogue_world
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import SECOND, World

pytestmark = pytest.mark.reference

PATIENCE_MS = 5
BOTH = Select((1, 2), -1, (), interruptible=True)


@pytest.fixture
def world(native: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    patience = {"first_ack_delay_ns": PATIENCE_MS * MS, "first_ack_patience_ns": PATIENCE_MS * MS}
    monkeypatch.setattr(dialogue_world, "PATIENT", replace(dialogue_world.PATIENT, **patience))
    made = World(connections=2)
    made.primary.talks = True
    made.primary.core.pause_ns = SECOND
    made.primary.lasts_ns = 100 * SECOND
    yield made
    made.close()


def converse(world: World) -> bool:
    """A message on the first connection, and its answer, which is heard; what else comes is not."""
    time.sleep(0.001)
    answers = [data for data in world.client.heard if decode(data).header.conn_seq_num == 1]
    world.client.heard = deque([data for data in world.client.heard if data not in answers])
    for data in answers:
        world.client.step(events.MessageReceived(data))
    world.client.call(Send(1, b"more"))
    world.primary.feed(1)
    found = world.primary.talk(BOTH) and world.primary.talk(Receive(1, 100))
    return found and world.primary.talk(Send(1, b"yes"))


def begin(world: World) -> None:
    """It talks, and has received what it does not answer."""
    assert world.primary.lend(BOTH)
    assert converse(world)
    assert converse(world)
    world.client.heard.clear()
    world.client.call(Send(2, b"slowly"))
    world.primary.feed(1)
    assert world.primary.talk(BOTH)
    assert world.primary.talk(Receive(2, 100))


def told(world: World) -> list[Header]:
    headers = [decode(data).header for data in world.client.heard]
    return [header for header in headers if header.message_type == MessageType.KEEP_ALIVE]


def test_it_tells_so_once_and_goes_on(world: World) -> None:
    begin(world)
    until_s = time.monotonic() + 6 * PATIENCE_MS / 1000
    while time.monotonic() < until_s:
        assert converse(world), "the dialogue ended"
    (header,) = told(world)
    connection = world.primary.connection(2)
    assert header.conn_seq_num == 2
    asked_again_ns = time.monotonic_ns() + SECOND
    world.primary.take_back()
    assert header.ack == connection.received_up_to - connection.in_base
    assert connection.ack_due_ns > asked_again_ns


def test_who_said_it_takes_it_for_acknowledged(world: World) -> None:
    begin(world)
    while not told(world):
        assert converse(world)
    sender = world.client.connection(2)
    assert sender.acked < sender.transmitted
    world.client.hear()
    assert sender.acked == sender.transmitted


def test_an_answer_needs_none(world: World) -> None:
    begin(world)
    assert world.primary.talk(Send(2, b"at last"))
    until_s = time.monotonic() + 4 * PATIENCE_MS / 1000
    while time.monotonic() < until_s:
        assert converse(world)
    assert not told(world)
