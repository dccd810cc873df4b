"""What arrived and what is due: in which order the driver sees to them, and what it leaves to whom."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from llft.config import GroupConfig
from llft.core import events
from llft.core.effects import Effect
from llft.identifiers import BirthId
from llft.instant import NEVER
from llft.runtime.arrivals import HEAR_INTERVAL_NS, WAITING_AT_MOST
from llft.runtime.driver import Driver
from llft.runtime.poller import Poller
from llft.wire.messages import MessageType
from tests.unit.test_driver import Silence

pytestmark = pytest.mark.reference


class Batches(Silence):
    """A network that has these datagrams, a batch at a time."""

    def __init__(self, *batches: list[bytes]) -> None:
        self.batches = list(batches)

    def receive(self) -> list[bytes]:
        return self.batches.pop(0) if self.batches else []

    def work(self, now_ns: int) -> list[BirthId]:
        return []


class Core:
    """It waits for b"beat"; `on_message` is what a message does beyond that."""

    config = GroupConfig(group_id=7)

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.deadline_ns = NEVER
        self.seen: list[bytes | str] = []
        self.on_message: Callable[[], None] = lambda: None
        self.asking: Any = None
        self.outbox = SimpleNamespace(strip=None)
        self.timers = SimpleNamespace(suspicion=lambda: (NEVER, 0))

    def next_deadline(self) -> int:
        return self.deadline_ns

    def step(self, event: events.Event, now_ns: int) -> list[Effect]:
        if isinstance(event, events.MessageReceived):
            self.seen.append(event.data)
            if event.data == b"beat":
                self.deadline_ns = NEVER
            self.on_message()
        else:
            self.seen.append(type(event).__name__)
            self.deadline_ns = NEVER
        return []


def driver_of(core: Core, network: Batches) -> Driver:
    stub: Any = core
    return Driver(stub, network, network, Poller())


def test_nobody_is_missed_whose_beat_lies_in_the_socket() -> None:
    """Looking at the first batch may take longer than the time that was left."""
    core = Core(live=False)
    core.deadline_ns = 0
    driver_of(core, Batches([b"one", b"two"], [b"beat"])).work()
    assert core.seen == [b"one", b"two", b"beat"]


def test_what_is_due_is_done_if_nothing_came() -> None:
    core = Core(live=False)
    core.deadline_ns = 0
    driver_of(core, Batches([b"one"])).work()
    assert core.seen == [b"one", "DeadlinePassed"]


def test_who_gets_something_to_do_gets_it_at_once() -> None:
    core = Core(live=True)
    network = Batches([b"one", b"two", b"three"], [b"four"])
    driver = driver_of(core, network)

    def give() -> None:
        driver.application.out_count = 1

    core.on_message = give
    driver.work()
    assert core.seen == [b"one"]
    assert driver.until_deadline() == 0, "there is more to look at"
    driver.application.out_count = 0
    driver.work()
    assert core.seen == [b"one", b"two"]


def test_a_heartbeat_overtakes_what_waits_for_the_program() -> None:
    beat = bytes((1, MessageType.HEARTBEAT)) + b"..."
    core = Core(live=True)
    driver = driver_of(core, Batches([b"one", b"two"], [b"three", beat]))

    def give() -> None:
        driver.application.out_count = 1

    core.on_message = give
    driver.work()
    assert core.seen == [b"one"]
    core.on_message = lambda: None
    driver.application.out_count = 0
    driver.work()
    assert core.seen == [b"one", beat, b"two", b"three"]


def test_what_waits_for_the_program_is_bounded() -> None:
    core = Core(live=True)
    many = [b"%d" % number for number in range(WAITING_AT_MOST + 1)]
    network = Batches(many, [b"more"])
    driver = driver_of(core, network)

    def give() -> None:
        driver.application.out_count = 1

    core.on_message = give
    for _ in range(2):
        driver.application.out_count = 0
        driver.work()
    assert core.seen == many[:2]
    assert network.batches == [[b"more"]], "it waits in the socket"


def test_while_the_program_computes_all_that_came_is_looked_at() -> None:
    core = Core(live=True)
    driver = driver_of(core, Batches([b"one", b"two", b"three"]))
    driver.application.out_count = 1
    driver.work()
    assert core.seen == [b"one", b"two", b"three"]


def test_who_is_promoted_gives_at_once_as_well() -> None:
    """Clients wait for that; what else has arrived came to a backup, and would be looked at first."""
    core = Core(live=False)
    driver = driver_of(core, Batches([b"one", b"two"]))

    def promote() -> None:
        core.live = True
        driver.application.out_count = 1

    core.on_message = promote
    driver.work()
    assert core.seen == [b"one"]


def test_what_is_due_waits_for_nobody() -> None:
    """Not for a thread that got something to do, either: a primary has to beat. But whom it would miss, or
    who has answered, it hears before."""
    beat = bytes((1, MessageType.HEARTBEAT)) + b"..."
    core = Core(live=True)
    driver = driver_of(core, Batches([b"one", b"two"], [b"three", beat]))

    def give() -> None:
        driver.application.out_count = 1

    core.on_message = give
    core.deadline_ns = 0
    driver.work()
    assert core.seen == [b"one", beat, b"two", b"three", "DeadlinePassed"]


def test_what_is_due_waits_for_what_is_in_the_socket_however_much_waits_here() -> None:
    beat = bytes((1, MessageType.HEARTBEAT)) + b"..."
    core = Core(live=True)
    many = [b"%d" % number for number in range(2 * WAITING_AT_MOST)]
    driver = driver_of(core, Batches(many, [beat]))

    def give() -> None:
        driver.application.out_count = 1

    core.on_message = give
    core.deadline_ns = 0
    driver.work()
    assert core.seen == [many[0], beat, *many[1:], "DeadlinePassed"]


class TestWhileThreadsGoOn:
    """Nobody serves the network then; what replies wait for is looked for all the same."""

    BEAT = bytes((1, MessageType.HEARTBEAT)) + b"..."

    def driver(self, *, asked: bool) -> tuple[Core, Driver]:
        core = Core(live=True)
        core.asking = SimpleNamespace(under_way=asked)
        return core, driver_of(core, Batches([b"one", self.BEAT], [self.BEAT]))

    def test_answers_of_backups_are_heard_and_the_rest_waits(self) -> None:
        core, driver = self.driver(asked=True)
        driver.arrivals.hear_backups()
        assert core.seen == [self.BEAT]
        assert list(driver.arrivals.waiting) == [b"one"]

    def test_all_that_was_taken_can_be_looked_at(self) -> None:
        core, driver = self.driver(asked=True)
        driver.arrivals.hear_backups()
        driver.arrivals.look_at_waiting()
        assert core.seen == [self.BEAT, b"one"]
        assert not driver.arrivals.waiting

    def test_not_if_nothing_waits_for_them(self) -> None:
        core, driver = self.driver(asked=False)
        driver.arrivals.hear_backups()
        assert core.seen == []

    def test_not_with_every_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        core, driver = self.driver(asked=True)
        now_ns = [10**9]
        monkeypatch.setattr("llft.originals.monotonic_ns", lambda: now_ns[0])
        driver.arrivals.hear_backups()
        driver.arrivals.hear_backups()
        assert core.seen == [self.BEAT]
        now_ns[0] += HEAR_INTERVAL_NS + 1
        driver.arrivals.hear_backups()
        assert core.seen == [self.BEAT, self.BEAT]
