"""Messages of several datagrams (D-12) in dialogues (D-74): heard and said there, and left to the core with
all that has come of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from llft.config import Limits
from llft.core.determinizer.operations import Receive, Send
from llft.core.dialogue_connection import FRAGMENTED_MAX, FRAGMENTS_MAX
from llft.core.messaging.kept import next_key
from llft.instant import MS, SECOND
from llft.runtime import dialogues
from llft.wire.codec import decode, encode
from llft.wire.header import HEADER_BYTES
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import World
from tests.unit.test_dialogue_edges import with_number

pytestmark = pytest.mark.reference

LARGE = bytes(range(251)) * 100
MUCH = 1 << 20


@pytest.fixture
def world(native: Any) -> Iterator[World]:
    made = World(Limits(datagram_bytes=4000, window_bytes=2 * len(LARGE)))
    made.primary.talks = True
    yield made
    made.close()


def tally() -> dict[str, int]:
    found: dict[str, int] = dialogues.native.dialogue_statistics()
    return found


def test_a_large_message_is_heard_and_answered(world: World) -> None:
    before, primary = tally(), world.primary
    digest = primary.connection().sent_digest
    assert world.client.call(Send(1, LARGE))
    assert len(primary.heard) > 6
    assert primary.lend()
    primary.feed(len(primary.heard))
    assert primary.talk(Receive(1, MUCH))
    assert primary.result == LARGE
    assert primary.line.hears_batches
    assert primary.talk(Send(1, LARGE[::-1]))
    after = tally()
    assert (after["heard"], after["said"]) == (before["heard"] + 1, before["said"] + 1)
    assert len(world.client.heard) == len(world.backup.heard) > 6
    primary.take_back()
    assert primary.connection().sent_digest == zlib.crc32(LARGE[::-1], digest)
    world.hear()
    assert world.client.call(Receive(1, MUCH))
    assert world.client.result == LARGE[::-1]


def test_what_has_come_of_a_message_is_given_back(world: World) -> None:
    primary = world.primary
    primary.lasts_ns = 2 * MS
    world.client.call(Send(1, LARGE))
    assert primary.lend()
    primary.feed(3)
    assert not primary.talk(Receive(1, MUCH)), "the rest has not come when its time is over"
    assert primary.take_back() == 0
    unfinished = primary.core.messaging.reassembly.unfinished()
    assert [sorted(parts) for _, parts in unfinished.values()] == [[0, 1, 2]]
    primary.hear()
    assert primary.call(Receive(1, MUCH))
    assert primary.result == LARGE


def test_what_has_come_before_is_lent(world: World) -> None:
    primary = world.primary
    world.client.call(Send(1, LARGE))
    rest = [primary.heard.pop() for _ in range(3)]
    primary.hear()
    assert primary.lend()
    primary.heard.extend(reversed(rest))
    primary.feed(3)
    assert primary.talk(Receive(1, MUCH))
    assert primary.result == LARGE
    primary.take_back()
    assert not primary.core.messaging.reassembly.unfinished()


@pytest.mark.parametrize("talks", [True, False])
def test_what_fits_with_all_that_it_carries_is_one_datagram(native: Any, talks: bool) -> None:
    """With what it reflects of the other group's order information, and not with what it might reflect."""
    world = World(Limits(datagram_bytes=(limit := 1352), order_carried_bytes=400))
    primary = world.primary
    primary.talks, primary.lasts_ns = talks, 60 * SECOND
    counts = set()
    for size in (1037, *range(1140, 1199)):
        assert world.client.call(Send(1, b"?"))
        if primary.is_talking or (talks and primary.lend()):
            primary.feed(1)
            assert primary.talk(Receive(1, 1))
        else:
            assert not talks
            primary.hear()
            assert primary.call(Receive(1, 1))
        primary.say(Send(1, bytes(size)))
        heard = list(world.client.heard)
        first = decode(heard[0])
        carried = len(first.order_bytes) + len(first.reflected_bytes)
        assert first.reflected_bytes
        assert max(map(len, heard)) <= limit
        assert (len(heard) == 1) == (HEADER_BYTES + carried + size <= limit)
        counts.add(len(heard))
        world.client.hear()
        assert world.client.call(Receive(1, MUCH))
        assert len(world.client.result) == size
    assert counts == {1, 2}
    world.close()


@pytest.mark.parametrize("place", [0, 2, 5])
def test_fragments_in_another_order_are_the_cores(world: World, place: int) -> None:
    primary, heard = world.primary, world.primary.heard
    world.client.call(Send(1, LARGE))
    heard[place], heard[place + 1] = heard[place + 1], heard[place]
    count = len(heard)
    assert primary.lend()
    primary.feed(count)
    assert not primary.talk(Receive(1, MUCH))
    assert primary.take_back()
    assert len(heard) == count - place, "with what it has left in the socket"
    primary.hear()
    assert primary.call(Receive(1, MUCH))
    assert primary.result == LARGE


def in_one_piece(fragments: list[bytes]) -> bytes:
    """As it may come when it is said again, with less order information on it."""
    messages = [decode(data) for data in fragments]
    messages[0].payload = b"".join([each.payload for each in messages])
    messages[0].header.fragment_count = 1
    return encode(messages[0])


def test_one_that_comes_whole_after_all_leaves_nothing_behind(world: World) -> None:
    primary = world.primary
    world.client.call(Send(1, LARGE))
    fragments = list(primary.heard)
    primary.heard.clear()
    primary.heard.extend([*fragments[:3], in_one_piece(fragments)])
    primary.hear()
    assert not primary.core.messaging.reassembly.unfinished()
    assert primary.call(Receive(1, MUCH))
    assert primary.result == LARGE


def test_one_that_is_lost_is_missed_as_ever(world: World) -> None:
    primary = world.primary
    world.client.call(Send(1, LARGE))
    del primary.heard[4]
    assert primary.lend()
    primary.feed(len(primary.heard))
    assert not primary.talk(Receive(1, MUCH))
    primary.take_back()
    primary.hear()
    connection = primary.connection()
    assert primary.core.messaging.reassembly.missing(next_key(connection)) == (4,)
    assert list(connection.nacks) == [connection.received_up_to + 1]
    assert not primary.lend(), "until it is here"


def test_a_window_is_open_again_when_the_others_have_it_all(world: World) -> None:
    primary = world.primary
    assert primary.lend()
    assert primary.talk(Send(1, LARGE))
    assert primary.talk(Send(1, LARGE))
    world.client.call(Send(1, b"all of it"))
    primary.heard[-1] = with_number(primary.heard[-1], "back", primary.core.messaging.lane.clock.value + 2)
    primary.feed(1)
    assert primary.talk(Receive(1, 100))
    assert primary.talk(Send(1, LARGE)), "without the core"


def test_a_window_that_is_full_is_the_cores(world: World) -> None:
    primary = world.primary
    assert primary.lend()
    assert primary.talk(Send(1, LARGE))
    assert primary.talk(Send(1, LARGE))
    assert not primary.talk(Send(1, LARGE))


@pytest.mark.parametrize(("count", "size"), [(FRAGMENTS_MAX + 1, 1), (3, FRAGMENTED_MAX)])
def test_too_much_of_a_message_is_not_lent(world: World, count: int, size: int) -> None:
    primary = world.primary
    reassembly, key = primary.core.messaging.reassembly, next_key(primary.connection())
    for index in range(2):
        reassembly.add(key, index, count, bytes(size))
    assert not primary.lend()
    reassembly.drop(key)
    assert primary.lend()
