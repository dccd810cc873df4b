"""Token mode, decision by decision: when a backup waits, what a WAKE does, what `held` holds."""

from __future__ import annotations

import json

import pytest

from llft.config import ThreadMode
from llft.core.determinizer import counts
from llft.core.determinizer.determinizer import Determinizer
from llft.core.determinizer.operations import (
    Accept,
    Claim,
    Close,
    Connect,
    Operation,
    ReadClock,
    Receive,
    Release,
    Send,
    Sleep,
    Spawn,
    Yield,
)
from llft.errors import DivergenceError
from llft.instant import NEVER
from llft.wire.order import CHECKPOINT, READ, SEND, SOCKET, TIME, WAKE, Entry
from tests.unit.determinizer_world import FakeConnections


def build(*, live: bool, incoming: int = 0) -> tuple[Determinizer, FakeConnections, list[Entry]]:
    connections = FakeConnections(1, incoming)
    log: list[Entry] = []
    determinizer = Determinizer(ThreadMode.TOKEN, connections, log.append, lambda _: 1000, bytes)
    if live:
        determinizer.go_live(0)
    determinizer.start()
    return determinizer, connections, log


def test_locks_yields_and_threads_make_no_entries() -> None:
    determinizer, _, log = build(live=True)
    assert determinizer.drain() == [("start", 1, None)]
    determinizer.invoke(1, Spawn("x"), 0)
    determinizer.invoke(1, Claim(7), 0)
    determinizer.invoke(1, Yield(), 0)
    assert determinizer.drain() == [("resume", 1, 2), ("resume", 1, True), ("start", 2, "x")]
    determinizer.invoke(2, Claim(7), 0)
    assert determinizer.drain() == [("resume", 1, None)]
    determinizer.invoke(1, Release(7), 0)
    determinizer.thread_ended(1)
    assert determinizer.drain() == [("resume", 1, True), ("resume", 2, True)]
    assert log == []


def test_a_thread_that_waits_is_woken_only_when_the_running_one_stops() -> None:
    determinizer, connections, log = build(live=True, incoming=1)
    determinizer.invoke(1, Spawn(None), 0)
    determinizer.invoke(1, Accept(), 0)
    assert determinizer.drain()[-1] == ("start", 2, None)
    connections.visible = 1
    determinizer.poke(5)
    determinizer.invoke(2, ReadClock(), 6)
    assert determinizer.drain() == [("resume", 2, 1000)]
    determinizer.invoke(2, Yield(), 7)
    assert determinizer.drain() == [("resume", 2, None)]
    determinizer.thread_ended(2)
    assert determinizer.drain() == [("resume", 1, (1, 20))]
    assert [entry[:3] for entry in log] == [(TIME, 2, 2), (WAKE, 2, 1), (SOCKET, 4, 1)]


def test_a_backup_makes_no_decision_that_the_log_does_not_prove() -> None:
    determinizer, _, _ = build(live=False)
    assert determinizer.drain() == [("start", 1, None)], "certain: nobody is parked"
    determinizer.invoke(1, Spawn(None), 0)
    determinizer.invoke(1, Sleep(10), 0)
    assert determinizer.drain() == [("resume", 1, 2)]
    determinizer.follow((TIME, 2, 2, 0, 5))
    assert determinizer.drain() == [("start", 2, None)]
    assert not determinizer.caught_up
    determinizer.invoke(2, ReadClock(), 0)
    assert determinizer.drain() == [("resume", 2, 5)]
    determinizer.thread_ended(2)
    assert determinizer.next_deadline() == NEVER
    determinizer.follow((WAKE, 2, 1))
    assert determinizer.drain() == [("resume", 1, None)]


def test_a_backup_learns_that_a_call_blocked_from_what_came_next() -> None:
    determinizer, _, _ = build(live=False, incoming=1)
    determinizer.invoke(1, Spawn(None), 0)
    determinizer.drain()
    determinizer.invoke(1, Accept(), 0)
    assert determinizer.drain() == []
    determinizer.follow((TIME, 2, 2, 0, 5))
    assert determinizer.drain() == [("start", 2, None)]


def test_a_backup_learns_that_a_call_blocked_from_a_checkpoint() -> None:
    primary, connections, log = build(live=True, incoming=1)
    primary.drain()
    primary.invoke(1, Accept(), 0)
    primary.record_checkpoint()
    assert log == [(CHECKPOINT, 1, 0)]
    successor, connections, log = build(live=False, incoming=1)
    connections.visible = 1
    successor.invoke(1, Accept(), 0)
    successor.follow((CHECKPOINT, 1, 0))
    assert successor.caught_up
    successor.go_live(0)
    assert [entry[:3] for entry in log] == [(WAKE, 1, 1), (SOCKET, 2, 1)]


def test_a_checkpoint_while_a_thread_runs_says_nothing_of_its_call() -> None:
    primary, _, log = build(live=True)
    primary.record_checkpoint()
    assert log == [(CHECKPOINT, 1, 1)]
    successor, connections, log = build(live=False, incoming=1)
    connections.visible = 1
    successor.invoke(1, Accept(), 0)
    successor.follow((CHECKPOINT, 1, 1))
    assert successor.caught_up
    successor.go_live(0)
    assert [entry[:3] for entry in log] == [(SOCKET, 1, 1)]


def test_a_checkpoint_may_find_a_backup_ahead_by_what_is_certain() -> None:
    backup, _, _ = build(live=False)
    backup.invoke(1, Yield(), 0)
    backup.follow((CHECKPOINT, 1, 1))
    assert backup.caught_up
    backup.follow((TIME, 2, 1, 0, 5))
    backup.invoke(1, ReadClock(), 0)
    assert backup.drain()[-1] == ("resume", 1, 5)


@pytest.mark.parametrize(
    ("calls", "entry"),
    [
        ([Yield()], (CHECKPOINT, 1, 0)),
        ([Yield()], (CHECKPOINT, 2, 2)),
        ([Spawn(None), Sleep(10)], (CHECKPOINT, 1, 0)),
        ([Sleep(10)], (CHECKPOINT, 2, 1)),
        ([ReadClock()], (CHECKPOINT, 1, 0)),
    ],
)
def test_a_checkpoint_that_cannot_be_reached_is_a_divergence(calls: list[Operation], entry: Entry) -> None:
    backup, _, _ = build(live=False)
    for call in calls:
        backup.invoke(1, call, 0)
    with pytest.raises(DivergenceError):
        backup.follow(entry)


@pytest.mark.parametrize(
    "entry",
    [
        (TIME, 1, 1, 1, 5),
        (TIME, 1, 2, 0, 5),
        (READ, 1, 1, 0, 5),
        (WAKE, 1, 1),
        (TIME, 2, 1, 0, 5),
        (TIME, 0, 1, 0, 5),
    ],
)
def test_another_entry_than_the_call_is_a_divergence(entry: Entry) -> None:
    determinizer, _, _ = build(live=False)
    determinizer.invoke(1, ReadClock(0), 0)
    with pytest.raises(DivergenceError) as caught:
        determinizer.follow(entry)
    assert caught.value.parameters["expected"] == entry
    assert caught.value.parameters["found"] == ReadClock(0)


def test_held_sends_nothing_and_completes_nothing_from_outside() -> None:
    determinizer, connections, log = build(live=True)
    determinizer.invoke(1, Connect(7), 0)
    connections.descriptors[1].connected = True
    connections.descriptors[1].stream = b"reply"
    connections.descriptors[1].arrived = 5
    determinizer.poke(1)
    assert determinizer.drain()[-1] == ("resume", 1, 1)
    assert [entry[0] for entry in log] == [SOCKET, SEND, WAKE, SOCKET]
    determinizer.held = True
    determinizer.invoke(1, Claim(1), 2)
    assert determinizer.drain() == [("resume", 1, True)], "what needs no entry goes on"
    determinizer.invoke(1, Send(1, b"abc"), 2)
    determinizer.poke(3)
    assert determinizer.drain() == []
    assert len(log) == 4
    determinizer.held = False
    determinizer.poke(4)
    assert determinizer.drain() == [("resume", 1, 3)]
    determinizer.invoke(1, Receive(1, 100), 5)
    assert determinizer.drain() == [("resume", 1, b"reply")]
    assert log[4:] == [(SEND, 2, 1, 1, 2, log[4][5]), (READ, 2, 1, 1, 5)]


def test_sleep_waits_on_real_time_also_after_promotion() -> None:
    determinizer, _, log = build(live=False)
    determinizer.invoke(1, Sleep(500), 100)
    determinizer.drain()
    determinizer.go_live(200)
    assert determinizer.next_deadline() == 600
    determinizer.poke(599)
    assert determinizer.drain() == []
    determinizer.poke(600)
    assert determinizer.drain() == [("resume", 1, None)]
    assert log == [(WAKE, 1, 1)]
    assert determinizer.next_deadline() == NEVER


def test_what_remains_of_a_sleep_travels_with_a_checkpoint() -> None:
    determinizer, _, _ = build(live=True)
    determinizer.drain()
    determinizer.invoke(1, Sleep(500), 100)
    determinizer.poke(300)
    joiner = Determinizer(ThreadMode.TOKEN, FakeConnections(1, 0), print, lambda _: 0, bytes)
    joiner.restore(determinizer.snapshot(), 7_000)
    joiner.go_live(7_100)
    assert joiner.next_deadline() == 7_300


@pytest.mark.reference
def test_counts_of_closed_descriptors_are_forgotten_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lives long: many clients, each polled in vain once, and one that stays."""
    monkeypatch.setattr(counts, "COUNTS_MANY", 16)
    primary, connections, log = build(live=True, incoming=200)
    connections.visible = 200
    backup, _, _ = build(live=False, incoming=200)
    for determinizer in (primary, backup):
        determinizer.drain()
    for number in range(1, 101):
        calls: list[Operation] = [
            Accept(),
            Receive(number, 10, blocking=False),
            Receive(1, 1, blocking=False),
        ]
        calls += [Close(number), Receive(number, 10, blocking=False)] if number > 1 else []
        for call in calls:
            start = len(log)
            results = []
            for determinizer in (primary, backup):
                determinizer.invoke(1, call, 0)
                for entry in log[start:] if determinizer is backup else ():
                    determinizer.follow(entry)
                results.append(determinizer.drain())
            assert results[0] == results[1]
            assert json.loads(primary.snapshot())["d"] == json.loads(backup.snapshot())["d"]
    assert b'{"t":[%d,1]}' % SOCKET in primary.snapshot(), "who stays is counted on"
    assert primary.snapshot().count(b'{"t":[%d,' % SOCKET) < 40
