"""What a dialogue (D-74) has heard, and the birth log gets: much of it is put there meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from llft.config import Limits
from llft.core.determinizer.operations import Receive, Send
from llft.instant import SECOND
from llft.past.birth_log import BirthLog
from llft.runtime import dialogues
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import World

pytestmark = pytest.mark.reference

SIZE, LIMIT = 50_000, 1 << 20
LIMITS = Limits(datagram_bytes=61_000, window_bytes=256 << 20, window_messages=8192)


@pytest.fixture
def worlds(native: Any) -> Iterator[list[World]]:
    """One whose primary talks, and one whose does not."""
    made = [World(LIMITS), World(LIMITS)]
    made[0].primary.talks = True
    made[0].primary.lasts_ns = 60 * SECOND
    yield made
    for each in made:
        each.close()


def exchange(world: World, first: int, count: int) -> int:
    """Messages that the primary hears and answers; in how many dialogues."""
    before = dialogues.native.dialogue_statistics()["dialogues"]
    for number in range(first, first + count):
        text = number.to_bytes(4, "big") * (SIZE // 4)
        assert world.client.call(Send(1, text))
        hear(world)
        assert world.primary.result == text
        assert world.primary.say(Send(1, b"%d" % number))
        world.backup.heard.clear()
        world.client.hear()
        assert world.client.call(Receive(1, LIMIT))
    found: int = dialogues.native.dialogue_statistics()["dialogues"]
    return found - before


def hear(world: World) -> None:
    """In a dialogue, if that can be."""
    primary = world.primary
    if primary.is_talking or (primary.talks and primary.lend()):
        primary.feed(1)
        if primary.talk(Receive(1, LIMIT)):
            return
        primary.take_back()
    primary.hear()
    assert primary.call(Receive(1, LIMIT))


def log_of(world: World) -> BirthLog:
    world.primary.take_back()
    return world.primary.log


def test_much_that_is_heard_does_not_end_it(worlds: list[World]) -> None:
    talking = worlds[0]
    exchange(talking, 0, 130)
    log_of(talking)
    assert exchange(talking, 130, 300) == 1, "fifteen megabytes"


def test_the_log_is_the_same(worlds: list[World]) -> None:
    """While it is small there is no room for all of it: what follows comes in pieces."""
    talking, other = worlds
    assert exchange(talking, 0, 180) > 1
    for first, count in ((180, 300), (480, 3)):
        exchange(talking, first, count)
        log = log_of(talking)
    exchange(other, 0, 483)
    expected = other.primary.log
    assert (log.length, log.digest) == (expected.length, expected.digest)
    assert log.kept() == expected.kept()


def test_more_than_there_is_room_for_ends_it(worlds: list[World]) -> None:
    """And nothing of it is lost."""
    talking, other = worlds
    exchange(talking, 0, 130)
    log_of(talking)
    assert exchange(talking, 130, 800) > 1, "forty megabytes"
    exchange(other, 0, 930)
    assert log_of(talking).digest == other.primary.log.digest
    assert log_of(talking).digest_at(log_of(talking).length) == other.primary.log.digest
    assert talking.primary.log.kept() == other.primary.log.kept()
