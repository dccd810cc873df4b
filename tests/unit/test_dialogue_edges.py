"""Dialogues (D-74) where something is out of the ordinary: not lent, or left, and the core sees to it."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from llft.core.determinizer.operation_ids import RANDOM
from llft.core.determinizer.operations import RandomBytes, ReadClock, Receive, Select, Send
from llft.core.effects import ResetApplication
from llft.instant import MS
from llft.past.witness import Witness
from llft.runtime import dialogues
from llft.wire.header import DYNAMIC, PREFIX_BYTES
from llft.wire.order import CHECKPOINT, GENERAL
from tests.unit.dialogue_kept import of_held
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import SECOND, Server, World

pytestmark = pytest.mark.reference

NUMBERS = ("back", "timestamp", "watermark", "committed", "order_start", "reflected_start")
"""Those of 64 bits, at the end of a header."""


@pytest.fixture
def world(native: Any) -> Iterator[World]:
    made = World()
    made.primary.talks = True
    yield made
    made.close()


def with_number(data: bytes, name: str, number: int) -> bytes:
    fields = list(DYNAMIC.unpack_from(data, PREFIX_BYTES))
    fields[NUMBERS.index(name) - len(NUMBERS)] = number
    end = PREFIX_BYTES + DYNAMIC.size
    return data[:PREFIX_BYTES] + DYNAMIC.pack(*fields) + data[end:]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("number", [(1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_peer_that_sends_absurd_numbers_is_the_cores(world: World, name: str, number: int) -> None:
    primary = world.primary
    world.client.call(Send(1, b"hello again"))
    usual = World()
    usual.client.call(Send(1, b"hello again"))
    for each in (world, usual):
        each.primary.heard[-1] = with_number(each.primary.heard[-1], name, number)
    assert primary.lend()
    primary.feed(1)
    assert not primary.talk(Receive(1, 100))
    primary.take_back()
    for server in (primary, usual.primary):
        server.hear()
        assert server.call(Receive(1, 100))
    primary.lend()
    primary.take_back()
    mine, other = primary.core.messaging.lane, usual.primary.core.messaging.lane
    assert mine.clock.value == other.clock.value
    assert [(p.start, p.data) for p in mine.held[1].pieces] == [
        (p.start, p.data) for p in other.held[1].pieces
    ]
    usual.close()


def test_a_log_that_this_replica_has_left_resets_it(native: Any) -> None:
    """It is found out when the dialogue is taken back: like in any step, the replica begins anew."""
    world = World()
    primary, backup = world.primary, world.backup
    backup.talks = True
    pick = primary.core.determinizer.engine.outside.pick
    primary.core.record((CHECKPOINT, pick, 7))
    primary.call(Send(1, b"so far"))
    world.client.hear()
    world.client.call(Send(1, b"go on"))
    assert backup.lend()
    backup.feed(1)
    assert not backup.talk(Receive(1, 100))
    backup.take_back()
    assert [type(effect) for effect in backup.resets] == [ResetApplication]
    world.close()


def test_it_is_not_lent_while_another_thread_waits_for_the_same_connection(world: World) -> None:
    """For its window, maybe: a dialogue would hear that it is open, and nobody would be woken."""
    engine = world.primary.core.determinizer.engine
    operation = Send(1, b"of another thread")
    engine.parked[2] = operation
    engine.waiters.enter(2, operation, tried=True)
    assert not world.primary.lend()
    del engine.parked[2]
    assert world.primary.lend()


def test_order_information_is_held_up_to_its_limit(world: World) -> None:
    primary, client = world.primary, world.client
    held = primary.core.messaging.lane.held[1]
    held.limit_bytes = held.held_bytes + 20
    assert primary.lend()
    for _ in range(10):
        client.call(Send(1, b"hello again"))
    primary.feed(10)
    for _ in range(10):
        if not primary.talk(Receive(1, 11)):
            primary.take_back()
            primary.hear()
            assert primary.call(Receive(1, 11))
        assert primary.result == b"hello again"
    primary.take_back()
    assert held.held_bytes <= held.limit_bytes


@pytest.mark.parametrize("passed", [0, 3, 1000])
def test_what_all_members_of_the_other_group_have_may_be_missed(world: World, passed: int) -> None:
    """Its order information went to others meanwhile: what is held is so far behind that nobody wants it."""
    usual = World()
    start = world.primary.core.messaging.lane.held[1].end + 500
    for each in (world, usual):
        each.client.call(Send(1, b"hello again"))
        data = with_number(each.primary.heard[-1], "order_start", start)
        each.primary.heard[-1] = with_number(data, "watermark", start + passed)
    assert world.primary.lend()
    world.primary.feed(1)
    assert world.primary.talk(Receive(1, 100))
    world.primary.take_back()
    usual.primary.hear()
    assert usual.primary.call(Receive(1, 100))
    mine, other = (each.primary.core.messaging.lane.held[1] for each in (world, usual))
    assert of_held(mine) == of_held(other)
    usual.close()


def test_a_count_that_the_log_s_tables_have_forgotten_goes_on(world: World) -> None:
    """It is not usable in a dialogue, and stays what it was: backups expect the next one."""
    primary = world.primary
    for server in (primary, world.backup):
        for _ in range(3):
            assert server.call(RandomBytes(2)) or server is world.backup
        world.tell()
    engine, encoder = primary.core.determinizer.engine, primary.core.messaging.lane.encoder
    del encoder.context.counts[RANDOM << 4 | GENERAL]
    before = dict(engine.outside.counts)
    world.client.call(Send(1, b"hello again"))
    assert primary.lend()
    primary.feed(1)
    assert primary.talk(Receive(1, 100))
    primary.take_back()
    assert {key: engine.outside.counts[key] for key in before} == before
    assert RANDOM << 4 | GENERAL not in encoder.context.counts


def test_what_runs_while_it_is_taken_back_is_not_of_it(world: World, native: Any) -> None:
    primary = world.primary
    assert primary.lend()
    assert native.reading(0) is not None
    found: list[object] = []

    def look(phase: str, info: dict[str, int]) -> None:
        found.append(native.reading(0))

    threshold = gc.get_threshold()
    gc.callbacks.append(look)
    gc.set_threshold(1)
    try:
        made = native.take_dialogue_back()[0]
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(look)
    assert made[0] == 1
    if found:
        assert set(found) == {None}


def test_a_thread_that_talks_is_not_taken_for_one_that_computes(world: World) -> None:
    primary = world.primary
    world.client.call(Send(1, b"hello again"))
    assert primary.lend()
    primary.feed(1)
    assert primary.talk(Receive(1, 100))
    before_ns = primary.core.last_step_ns
    primary.take_back()
    assert primary.thread.out_since_ns == primary.core.last_step_ns > before_ns


def talking_thread(
    server: Server, call: Callable[[], object], operation: Receive | Select | None = None
) -> tuple[threading.Thread, list[object]]:
    """One that is lent a dialogue, and waits in this call of it."""
    found: list[object] = []
    lent = threading.Event()

    def talk() -> None:
        assert lent.wait(10)
        found.append(call())

    thread = threading.Thread(target=talk)
    thread.start()
    assert thread.ident is not None
    server.lasts_ns = 20 * SECOND
    assert server.lend(operation, ident=thread.ident)
    lent.set()
    until_s = time.monotonic() + 10
    while not dialogues.native.is_waiting():
        assert time.monotonic() < until_s
        os.sched_yield()
    return thread, found


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("primary", Receive(1, 77)),
        ("backup", Receive(1, 77)),
        ("backup", Send(1, b"well", True)),
        ("backup", Send(1, b"well", False)),
    ],
)
def test_a_call_that_waits_is_handed_over_once(native: Any, name: str, operation: Receive | Send) -> None:
    """Whoever takes the dialogue back makes it to the core; the thread finds out, and nothing else."""
    world = World()
    server: Server = getattr(world, name)
    server.talks = True
    if isinstance(operation, Receive):
        thread, found = talking_thread(server, lambda: native.receive(1, operation.limit, True))
    else:
        thread, found = talking_thread(server, lambda: native.send(1, operation.payload, operation.blocking))
    server.take_back()
    thread.join(10)
    assert found == [native.HANDED]
    assert server.handed == [operation]
    assert server.dialogues.leaving is server.thread
    assert server.line.awaited
    assert not server.lend(), "it has not noticed yet, for all that others know"
    server.dialogues.was_noticed()
    assert not server.line.awaited
    world.close()


@pytest.mark.parametrize("operation", [ReadClock(1), RandomBytes(8)])
def test_what_a_backup_reads_is_handed_over_too(native: Any, operation: ReadClock | RandomBytes) -> None:
    world = World()
    backup = world.backup
    backup.talks = True
    call = native.draw if isinstance(operation, RandomBytes) else native.read_clock
    thread, found = talking_thread(backup, lambda: call(operation[0]))
    backup.take_back()
    thread.join(10)
    assert found == [native.HANDED]
    assert backup.handed == [operation]
    backup.dialogues.was_noticed()
    world.close()


def test_a_backup_waits_for_a_reading_in_its_dialogue(native: Any) -> None:
    """It is told of it with what follows: outside it would wait as long."""
    world = World()
    backup, client, primary = world.backup, world.client, world.primary
    backup.talks = True
    thread, found = talking_thread(backup, lambda: native.read_clock(0))
    assert primary.call(ReadClock(0))
    told = primary.result
    assert primary.call(Send(1, b"the time"))
    client.hear()
    assert client.call(Send(1, b"thank you"))
    backup.feed(len(backup.heard))
    thread.join(10)
    assert found == [told]
    world.close()


def test_who_was_stopped_says_nothing_more(world: World, native: Any) -> None:
    """It may have been replaced meanwhile: the core is to find that out first."""
    primary = world.primary
    world.client.call(Send(1, b"are you there?"))
    primary.core.pause_ns = 30 * MS
    assert primary.lend()
    primary.feed(1)
    threading.Event().wait(0.05)
    assert not primary.talk(Receive(1, 100))
    assert not primary.talk(Send(1, b"yes"))
    assert native.reading(0) is None
    primary.take_back()
    assert primary.line.said() == []
    assert not primary.lend()


def test_who_is_stopped_while_it_waits_hears_and_says_nothing(world: World, native: Any) -> None:
    primary = world.primary
    world.client.call(Send(1, b"are you there?"))
    primary.core.pause_ns = 30 * MS
    thread, found = talking_thread(primary, lambda: native.receive(1, 100, True))
    threading.Event().wait(0.05)
    primary.feed(1)
    thread.join(10)
    assert found == [None]
    before = primary.core.last_step_ns
    primary.take_back()
    assert primary.core.last_step_ns == before, "the next step is to notice the pause"
    assert primary.connection().received[-1].payload == b"are you there?"


def test_a_signal_ends_the_wait(world: World, native: Any) -> None:
    """What handles it runs in between, as in any call that waits."""
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    world.primary.lasts_ns = 20 * SECOND
    try:
        assert world.primary.lend()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        assert native.receive(1, 100, True) is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [signal.SIGALRM]
    assert native.is_talking()


def test_what_stands_behind_the_entries_that_were_performed_is_passed(native: Any) -> None:
    """Its thread may compute for long now: who is promised meanwhile would wait for its next call."""
    world = World()
    primary, backup = world.primary, world.backup
    world.client.call(Send(1, b"go on"))
    world.hear()
    assert primary.call(Receive(1, 100))
    assert primary.call(Send(1, b"well"))
    primary.core.determinizer.engine.record_checkpoint()
    world.tell()
    backup.talks = True
    assert backup.lend()
    assert backup.talk(Receive(1, 100))
    assert backup.talk(Send(1, b"well"))
    backup.take_back()
    assert backup.core.determinizer.caught_up
    assert backup.core.executed == primary.core.executed
    world.close()


def test_a_long_dialogue_has_several_frames_in_the_journal(world: World) -> None:
    """Of calls that take the most room there: `Server` reads what it is given."""
    primary = world.primary
    primary.lasts_ns = 20 * SECOND
    before = len(primary.records)
    assert primary.lend()
    for number in range(200):
        world.client.call(Send(1, b"%d" % number))
        primary.feed(1)
        calls = [Receive(1, 100), *(ReadClock(number % 2) for number in range(20)), Send(1, b"well")]
        assert all(primary.talk(call) for call in calls)
        world.client.hear()
    primary.take_back()
    assert primary.made == 200 * 22
    assert len(primary.records) > before + 2 * primary.made


@pytest.fixture
def wide(native: Any) -> Iterator[World]:
    """With three connections, on which each kind of call was made once."""
    made = World(connections=3)
    made.primary.talks = True
    yield made
    made.close()


def test_a_select_whose_time_is_over_finds_nothing(wide: World, native: Any) -> None:
    """As in the core: the thread was woken, and its entry says that there is nothing."""
    primary = wide.primary
    primary.lasts_ns = 20 * SECOND
    operation = Select(wide.fds, 2 * MS, (), interruptible=True)
    assert primary.lend(operation)
    assert native.select(*operation, True) == ()
    primary.take_back()
    wide.tell()
    wide.backup.follow([operation], 0)
    assert wide.backup.result == ()
    assert wide.backup.out
    texts = [record.entry for record in primary.records[-2:]]
    assert [text.split()[0] for text in texts] == ["wake", "general"]
    assert texts[1].endswith("data=53")


def test_a_select_that_is_left_has_the_rest_of_its_time(wide: World, native: Any) -> None:
    primary = wide.primary
    primary.lasts_ns = 20 * MS
    operation = Select(wide.fds, SECOND, (), interruptible=True)
    assert primary.lend(operation)
    left_ns = native.select(*operation, True)
    assert isinstance(left_ns, int)
    assert 0 < left_ns <= SECOND - 19 * MS
    assert native.select(wide.fds, 1 << 70, (), True, True) == 1 << 70


def test_a_select_with_a_timeout_is_the_cores_where_calls_are_witnessed(wide: World, native: Any) -> None:
    """Its dialogue was lent for a read. Left, it would be a select for less time: another call than the one
    that a restored program makes (`past.witness`)."""
    primary = wide.primary
    primary.lasts_ns = 20 * MS
    primary.witness = Witness()
    operation = Select(wide.fds, SECOND, (), interruptible=True)
    assert not primary.lend(operation)
    assert primary.lend(Receive(wide.fds[0], 100))
    assert native.select(*operation, True) == SECOND
    assert native.select(wide.fds, 0, (), True, True) == ()
    primary.take_back()
    assert primary.witness.count == 1


@pytest.mark.parametrize("timeout_ns", [-1, 10 * SECOND])
def test_a_select_that_waits_is_handed_over(wide: World, native: Any, timeout_ns: int) -> None:
    primary = wide.primary
    operation = Select(wide.fds, timeout_ns, (), interruptible=True)
    thread, found = talking_thread(primary, lambda: native.select(*operation, True), operation)
    primary.take_back()
    thread.join(10)
    assert found == [native.HANDED]
    (handed,) = primary.handed
    assert isinstance(handed, Select)
    assert handed._replace(timeout_ns=timeout_ns) == operation
    assert handed.timeout_ns == -1 if timeout_ns < 0 else 0 < handed.timeout_ns < timeout_ns


def test_what_is_not_lent_is_not_selected_on(wide: World, native: Any) -> None:
    primary = wide.primary
    assert primary.lend(Select(wide.fds[:2], -1, (), interruptible=True))
    for fds, writing in (((1, 3), ()), ((1,), (3,)), ((1,), (0,)), ((1, -1), ()), ((1, 1 << 70), ())):
        assert native.select(fds, -1, writing, True, True) == -1
    assert native.select((1,), 0, (2,), True, True) == (-2,)


def test_a_select_on_too_many_is_the_cores(wide: World) -> None:
    assert not wide.primary.lend(Select(tuple(range(1, 200)), -1, (), interruptible=True))


def test_who_only_looks_hears_what_has_come(wide: World, native: Any) -> None:
    """A program that never waits would else never hear anything."""
    primary = wide.primary
    assert primary.lend(Select(wide.fds, -1, (), interruptible=True))
    assert native.select(wide.fds, 0, (), True, True) == ()
    client, number = wide.ends[2]
    client.call(Send(number, b"are you there?"))
    primary.feed(1)
    assert native.select(wide.fds, 0, (), True, True) == (2,)


def test_who_reads_again_and_again_hears_what_has_come(wide: World, native: Any) -> None:
    primary = wide.primary
    primary.lasts_ns = 20 * SECOND
    assert primary.lend(Receive(2, 100))
    client, number = wide.ends[2]
    client.call(Send(number, b"are you there?"))
    primary.feed(1)
    for _ in range(70):  # more than a quantum
        found = native.look(2, 100)
        if found is not True:
            break
    assert found == b"are you there?"


def test_a_backup_that_has_much_of_the_log_keeps_its_deadlines(native: Any) -> None:
    """Its thread need not wait for a long time: it looks up whenever its quantum is used up."""
    world = World()
    primary, backup = world.primary, world.backup
    for _ in range(200):
        assert primary.call(ReadClock(0))
        primary.core.messaging.lane.encoder.seal()
    world.tell()
    backup.talks = True
    backup.lasts_ns = 5 * MS
    assert backup.lend(Receive(1, 100))
    quantum = backup.core.determinizer.engine.scheduler.quantum_calls
    threading.Event().wait(0.006)
    made = 0
    while backup.talk(ReadClock(0)):
        made += 1
    assert 0 < made < quantum
    world.close()


def test_a_select_that_may_wait_is_never_left_as_one_that_may_not(native: Any) -> None:
    """A backup waits for the log, whatever its own clock says; the log may say that the primary waited."""
    world = World(connections=2)
    backup = world.backup
    backup.talks = True
    backup.lasts_ns = 10 * MS
    operation = Select(world.fds, 2 * MS, (), interruptible=True)
    assert backup.lend(operation)
    assert native.select(*operation, True) == 1
    backup.take_back()
    thread, found = talking_thread(backup, lambda: native.select(*operation, True), operation)
    threading.Event().wait(0.01)
    backup.take_back()
    thread.join(10)
    assert found == [native.HANDED]
    assert backup.handed == [operation._replace(timeout_ns=1)]
    world.close()
