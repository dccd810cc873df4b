"""Dialogues (D-74): what comes of one is what would have come of the core's steps."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from llft.config import Limits
from llft.core.determinizer.operations import (
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Select,
    Send,
)
from llft.instant import MS
from llft.wire.codec import decode
from llft.wire.header import HEADER_BYTES
from llft.wire.messages import MessageType
from tests.unit.dialogue_kept import kept
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import SECOND, World

pytestmark = pytest.mark.reference

DATAGRAM, CARRIED = 12_000, 3000
FIRST, PLAIN = DATAGRAM - HEADER_BYTES - CARRIED * 3 // 2, DATAGRAM - HEADER_BYTES
"""What the first of several datagrams of a message has of it, and any other one."""
LARGE = [5000, FIRST - 1, FIRST + 1, PLAIN - 100, PLAIN, FIRST + PLAIN, FIRST + PLAIN + 1, 40_000]


class Conversation:
    """Of clients and a server: what they do is drawn, and the same in every world with this seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.draw = world, random.Random(seed)
        self.calm = self.draw.choice([1, 5, 20])
        """So many times less often something unusual happens."""
        self.large = self.draw.choice([2, 6, 4 * self.calm])
        """One in so many messages is large."""
        self.calls: list[Operation] = []
        """Of the server's thread."""
        self.results: list[Any] = []
        self.readings: deque[int] = deque()
        self.drawn: deque[bytes] = deque()

    def happen(self, count: int) -> None:
        for _ in range(count):
            actions: list[tuple[int, Callable[[], None]]] = [
                (6 * self.calm, self.server_hears),
                (5 * self.calm, self.server_says),
                (3 * self.calm, self.server_looks_at_the_clock),
                *self._of_several(),
                (4 * self.calm, self.client_says),
                (4 * self.calm, self.client_hears),
                (3 * self.calm, self.backup_follows),
                (1, self.backup_beats),
                (1, self.primary_beats),
                (2, self.client_beats),
                (2, self.much_happens_elsewhere),
                (1, self.datagrams_are_swapped),
                (1, self.datagram_is_doubled),
                (1, self.dialogue_ends),
            ]
            weights = [weight for weight, _ in actions]
            self.draw.choices([action for _, action in actions], weights)[0]()

    def _of_several(self) -> list[tuple[int, Callable[[], None]]]:
        """What a server does that has several clients."""
        if len(self.world.ends) == 1:
            return []
        return [
            (8 * self.calm, self.server_selects),
            (self.calm, self.server_looks_who_can_be_served),
            (2 * self.calm, self.server_reads_what_is_there),
            (self.calm, self.server_draws),
        ]

    def end(self) -> None:
        world = self.world
        for server in (world.primary, world.backup):
            server.take_back()
        world.hear()
        for fd in world.fds:
            while world.primary.has_unread(Receive(fd, 1)):
                self._called(Receive(fd, 10_000), world.primary.call)
        world.tell()
        world.backup.follow(self.calls, 0)
        world.backup.take_back()
        assert world.backup.called_count == len(self.calls)

    def _fd(self) -> int:
        return self.draw.choice(self.world.fds)

    def server_hears(self) -> None:
        operation = Receive(self._fd(), self.draw.choice([1, 7, 100, 4000]))
        self._wait_for(operation)

    def server_selects(self) -> None:
        """And reads of those that have something, or not."""
        fds = tuple(self.draw.sample(self.world.fds, self.draw.randint(1, len(self.world.fds))))
        fds = self.draw.choice([fds, self.world.fds, (0, *self.world.fds)])
        self._wait_for(Select(fds, -1, (), interruptible=self.draw.random() < 0.9))
        for fd in self.results[-1]:
            if self.draw.random() < 0.8:
                operation = Receive(fd, self.draw.choice([7, 4000]), blocking=self.draw.random() < 0.5)
                self._called(operation, self.world.primary.say)

    def _wait_for(self, operation: Receive | Select) -> None:
        came = self.draw.randint(1, 4)
        self._called(operation, lambda _: self.world.primary.receive(operation, lambda: self._came(came)))

    def server_looks_who_can_be_served(self) -> None:
        writing = self.draw.choice([(), (self._fd(),)])
        self._called(Select(self.world.fds, 0, writing, interruptible=True), self.world.primary.say)

    def server_reads_what_is_there(self) -> None:
        for _ in range(self.draw.choice([1, 1, 40])):
            self._called(Receive(self._fd(), 50, blocking=False), self.world.primary.say)

    def server_draws(self) -> None:
        for _ in range(self.draw.choice([1, 3])):
            self._called(RandomBytes(self.draw.choice([1, 8, 200])), self.world.primary.say)

    def _came(self, count: int) -> int:
        """A member's Heartbeat comes alone. While messages come briskly it waits until the dialogue is over,
        so what came behind it would be looked at before it."""
        on_its_way = self.world.primary.heard
        while not on_its_way:
            self.client_says()
        for at, data in enumerate(list(on_its_way)[:count]):
            if decode(data).header.message_type == MessageType.HEARTBEAT:
                return max(at, 1)
        return min(count, len(on_its_way))

    def server_says(self) -> None:
        for _ in range(self.draw.choice([1, 1, 1, 2, 5])):
            self._called(Send(self._fd(), self._text()), self.world.primary.say)

    def server_looks_at_the_clock(self) -> None:
        for _ in range(self.draw.randint(1, 3)):
            self._called(ReadClock(self.draw.randrange(3)), self.world.primary.say)

    def _called(self, operation: Operation, call: Callable[[Any], Any]) -> None:
        call(operation)
        assert self.world.primary.out
        self.calls.append(operation)
        self.results.append(self.world.primary.result)
        if isinstance(operation, ReadClock):
            self.readings.append(self.world.primary.result)
        if isinstance(operation, RandomBytes):
            self.drawn.append(self.world.primary.result)

    def _text(self) -> bytes:
        sizes = [1, 2, 30, 130, 700] if self.draw.randrange(self.large) else LARGE
        return self.draw.randbytes(self.draw.choice(sizes))

    def client_says(self) -> None:
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            client, number = self.world.ends[self._fd()]
            client.call(Send(number, self._text()))

    def client_hears(self) -> None:
        for client, number in self.world.ends.values():
            client.hear()
            assert client.call(Receive(number, 1 << 20, blocking=False))

    def backup_follows(self) -> None:
        self.world.backup.follow(self.calls, self.draw.randint(0, 8))

    def backup_beats(self) -> None:
        self.world.backup.take_back()
        self.world.backup.hear()
        self.world.backup.beat()

    def primary_beats(self) -> None:
        primary = self.world.primary
        primary.take_back()
        primary.beat()

    def client_beats(self) -> None:
        self.draw.choice(self.world.clients).beat()

    def much_happens_elsewhere(self) -> None:
        """So the next timestamps are far from those before."""
        self.draw.choice(self.world.clients).core.messaging.lane.clock.value += 1 << self.draw.randrange(45)

    def datagrams_are_swapped(self) -> None:
        heard = self.draw.choice([self.world.primary, self.world.backup]).heard
        if len(heard) > 1:
            heard[0], heard[1] = heard[1], heard[0]

    def datagram_is_doubled(self) -> None:
        heard = self.draw.choice([self.world.primary, self.world.backup]).heard
        if heard:
            heard.append(heard[0])

    def dialogue_ends(self) -> None:
        for server in (self.world.primary, self.world.backup):
            server.take_back()


NewWorld = Callable[[int], World]
"""The world of a seed: how many connections there are follows from it."""


@pytest.fixture
def new_world(native: Any) -> Iterator[NewWorld]:
    made: list[World] = []

    def make(seed: int) -> World:
        connections, clients = ((1, 1), (3, 1), (2, 2), (9, 1))[seed % 4]
        level, has_third = ((0, False), (1, False), (1, True))[seed % 3]
        limits = Limits(datagram_bytes=DATAGRAM, order_carried_bytes=CARRIED)
        made.append(World(limits, connections=connections, clients=clients, level=level, has_third=has_third))
        return made[-1]

    yield make
    for world in made:
        world.close()


SEEDS = range(60)
SEVERAL = 1
"""The seed of a world with several connections."""


def happen_in(conversations: list[Conversation]) -> None:
    """In the first world, and then the same in the second."""
    first, second = (conversation.world for conversation in conversations)
    for conversation in conversations:
        begin_late(conversation)
        conversation.happen(80)
        conversation.end()
        second.primary.happened = first.primary.happened
        second.primary.readings = conversations[0].readings
        second.primary.drawn.again = conversations[0].drawn


@pytest.mark.parametrize("seed", SEEDS)
def test_a_primary_is_afterwards_as_if_it_had_been_stepped(new_world: NewWorld, seed: int) -> None:
    talking, stepped = new_world(seed), new_world(seed)
    talking.primary.talks = stepped.primary.repeats = True
    talking.primary.lasts_ns = 5 * MS
    happen_in([Conversation(world, seed) for world in (talking, stepped)])
    assert not stepped.primary.happened
    assert_alike(talking, stepped)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_backup_is_afterwards_as_if_it_had_been_stepped(new_world: NewWorld, seed: int) -> None:
    talking, stepped = new_world(seed), new_world(seed)
    talking.backup.talks = True
    talking.backup.lasts_ns = MS
    happen_in([Conversation(world, seed) for world in (talking, stepped)])
    assert_alike(talking, stepped)


@pytest.mark.parametrize("talks", ["primary", "backup"])
def test_there_are_dialogues(new_world: NewWorld, native: Any, talks: str) -> None:
    """What the others compare is something."""
    made, seeds = 0, SEEDS[::5]
    for seed in seeds:
        world = new_world(seed)
        server = {"primary": world.primary, "backup": world.backup}[talks]
        server.talks = True
        conversation = Conversation(world, seed)
        conversation.happen(80)
        conversation.end()
        made += server.made
    assert made > 10 * len(seeds)
    answers = {"primary": "asked", "backup": "answered"}[talks]
    assert native.dialogue_statistics()[answers] > 0, "for the output commit"


def test_a_thread_that_selects_is_lent_all_of_it_for_a_read(new_world: NewWorld) -> None:
    """A server that is busy finds something whenever it selects, and is lent its dialogue when it reads."""
    world = new_world(SEVERAL)
    primary, fds = world.primary, world.fds
    assert len(fds) > 1
    primary.talks = True
    for fd in fds:
        client, number = world.ends[fd]
        assert client.call(Send(number, b"served at once"))
    world.hear()
    assert primary.lend(Select(fds, -1, (), interruptible=True))
    primary.take_back()
    assert not primary.lend(Receive(fds[0], 100)), "the one before was for nothing, so one is left out"
    assert primary.lend(Receive(fds[0], 100))
    for fd in fds:
        assert primary.talk(Receive(fd, 100))
        assert primary.result == b"served at once"
        assert primary.talk(Send(fd, b"yes"))
    assert not primary.line.taken_count


@pytest.mark.parametrize(
    "operation", [ReadClock(0), Send(1, b"well"), RandomBytes(4), Select((1,), 0, (), interruptible=True)]
)
def test_behind_a_dialogue_the_next_one_is_lent_for_any_call(
    new_world: NewWorld, native: Any, operation: Operation
) -> None:
    """What is left of a request would cost more outside than all of it does inside."""
    primary = new_world(SEVERAL).primary
    primary.talks, primary.lasts_ns = True, 100 * SECOND
    if not isinstance(operation, Select):
        assert not primary.lend(operation), "there was none before it"
    assert primary.lend()
    for _ in range(4):
        assert primary.talk(ReadClock(0))
    primary.take_back()
    assert primary.lend(operation)
    assert primary.talk(operation)


def test_whoever_is_refused_one_is_lent_none_for_calls_that_do_not_wait(new_world: NewWorld) -> None:
    primary = new_world(0).primary
    primary.talks, primary.lasts_ns = True, 100 * SECOND
    assert primary.lend()
    for _ in range(4):
        assert primary.talk(ReadClock(0))
    primary.take_back()
    primary.core.messaging.silent = True
    assert not primary.lend(ReadClock(0))
    primary.core.messaging.silent = False
    assert not primary.lend(ReadClock(0)), "it is not looked at for each of them"
    assert primary.lend()


def test_what_was_taken_is_looked_at_first(new_world: NewWorld) -> None:
    """A server that is behind its clients has always some that wait."""
    primary = new_world(SEVERAL).primary
    primary.talks = True
    primary.seen_to.append(b"a datagram that waits")
    assert primary.lend()
    assert primary.seen_to == []


def begin_late(conversation: Conversation) -> None:
    """Of a program that was picked often already."""
    picks = conversation.draw.choice([0, 0, 1 << 6, 1 << 13, 1 << 31, 1 << 40])
    for server in (conversation.world.primary, conversation.world.backup):
        engine: Any = server.core.determinizer.engine
        engine.scheduler.pick_count += picks
        engine.outside.pick = engine.scheduler.pick_count


def assert_alike(one: World, other: World) -> None:
    for mine, its in ((one.primary, other.primary), (one.backup, other.backup)):
        assert kept(mine) == kept(its)
