"""Park, Unpark, interruptible Select, Obtain and peeks, call by call."""

from __future__ import annotations

import pytest

from llft.config import ThreadMode
from llft.core.determinizer.determinizer import Completion, Determinizer
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Accept,
    Obtain,
    Park,
    Receive,
    Select,
    Spawn,
    Unpark,
    Yield,
)
from llft.errors import DivergenceError, UnsupportedOperationError
from llft.instant import NEVER
from llft.wire.order import GENERAL, READ, SOCKET, WAKE, Entry
from tests.unit.determinizer_world import FakeConnections

World = tuple[Determinizer, FakeConnections, list[Entry]]
MODES = pytest.mark.parametrize("mode", list(ThreadMode), ids=lambda mode: mode.value)


def build(*, live: bool, mode: ThreadMode = ThreadMode.TOKEN, incoming: int = 0) -> World:
    connections = FakeConnections(1, incoming)
    log: list[Entry] = []
    determinizer = Determinizer(mode, connections, log.append, lambda _: 1000, bytes)
    if live:
        determinizer.go_live(0)
    determinizer.start()
    return determinizer, connections, log


def with_second_thread(*, live: bool, incoming: int = 0) -> World:
    """Thread 1 has spawned thread 2, and has the token."""
    world = build(live=live, incoming=incoming)
    world[0].invoke(1, Spawn(None), 0)
    world[0].drain()
    return world


@pytest.mark.parametrize("live", [True, False])
def test_threads_that_wake_one_another_make_no_entries_and_need_none(live: bool) -> None:
    determinizer, _, log = with_second_thread(live=live)
    determinizer.invoke(1, Park(), 0)
    assert determinizer.drain() == [("start", 2, None)]
    assert determinizer.next_deadline() == NEVER
    determinizer.invoke(2, Unpark(1), 0)
    determinizer.invoke(2, Unpark(1), 0)
    determinizer.invoke(2, Select((), -1, interruptible=True), 0)
    assert determinizer.drain() == [("resume", 2, True), ("resume", 2, False), ("resume", 1, True)]
    determinizer.invoke(1, Unpark(2), 0)
    determinizer.invoke(1, Park(0), 0)
    determinizer.thread_ended(1)
    assert determinizer.drain() == [("resume", 1, True), ("resume", 1, False), ("resume", 2, None)]
    assert log == []


def test_a_timeout_that_has_passed_is_not_undone() -> None:
    determinizer, _, log = with_second_thread(live=True)
    determinizer.invoke(1, Park(10), 0)
    determinizer.invoke(2, Yield(), 10)  # the deadline passes: thread 1 stands behind thread 2
    assert determinizer.drain() == [("start", 2, None), ("resume", 2, None)]
    determinizer.invoke(2, Unpark(1), 11)
    determinizer.thread_ended(2)
    assert determinizer.drain() == [("resume", 2, False), ("resume", 1, False)]
    assert log == [(WAKE, 2, 1)]


def test_a_timeout_that_comes_too_late_never_was() -> None:
    determinizer, _, log = with_second_thread(live=True)
    determinizer.invoke(1, Park(10), 0)
    determinizer.invoke(2, Unpark(1), 11)
    determinizer.thread_ended(2)
    assert determinizer.drain() == [("start", 2, None), ("resume", 2, True), ("resume", 1, True)]
    assert (log, determinizer.next_deadline()) == ([], NEVER)


def test_news_for_a_select_that_was_woken_are_not_lost() -> None:
    """It was woken for a connection that another thread takes; it must not wait for the next one."""
    determinizer, connections, log = with_second_thread(live=True, incoming=1)
    determinizer.invoke(1, Select((0,), -1, interruptible=True), 0)
    connections.visible = 1
    determinizer.poke(0)
    results = steal_and_tell(determinizer)
    assert log[0] == (WAKE, 2, 1)
    assert results[-2:] == [("resume", 2, True), ("resume", 1, None)]
    follower, _, _ = with_second_thread(live=False, incoming=1)
    for entry in log:
        follower.follow(entry)
    follower.invoke(1, Select((0,), -1, interruptible=True), 0)
    assert steal_and_tell(follower) == results
    assert follower.caught_up


def steal_and_tell(determinizer: Determinizer) -> list[Completion]:
    determinizer.invoke(2, Yield(), 0)
    determinizer.invoke(2, Accept(), 0)
    determinizer.invoke(2, Unpark(1), 0)
    determinizer.thread_ended(2)
    return determinizer.drain()


def test_a_select_that_is_not_interruptible_is_left_alone() -> None:
    determinizer, _, _ = with_second_thread(live=True)
    determinizer.invoke(1, Select((), -1), 0)
    determinizer.invoke(2, Unpark(1), 0)
    determinizer.thread_ended(2)
    assert determinizer.drain() == [("start", 2, None), ("resume", 2, False)]


def test_a_backup_waits_for_proof_only_while_somebody_waits_for_the_outside() -> None:
    determinizer, _, _ = with_second_thread(live=False)
    determinizer.invoke(1, Park(10), 0)
    assert determinizer.drain() == []
    determinizer.follow((WAKE, 1, 1))
    assert determinizer.drain() == [("start", 2, None)]
    determinizer.invoke(2, Park(), 0)
    assert determinizer.drain() == [("resume", 1, False)]
    determinizer.invoke(1, Unpark(2), 0)
    determinizer.invoke(1, Park(), 0)
    assert determinizer.drain() == [("resume", 1, True), ("resume", 2, True)]


@MODES
def test_only_the_primary_produces(mode: ThreadMode) -> None:
    primary, _, log = build(live=True, mode=mode)
    primary.invoke(1, Obtain("host name", lambda: b"here"), 0)
    assert primary.drain()[-1] == ("resume", 1, b"here")
    assert [entry[0] for entry in log] == [GENERAL]
    follower, _, _ = build(live=False, mode=mode)
    follower.invoke(1, Obtain("host name", lambda: b"there"), 0)
    assert follower.drain() == [("start", 1, None)]
    assert not follower.is_out(1)
    restored = Determinizer(mode, FakeConnections(1, 0), log.append, lambda _: 1000, bytes)
    restored.restore(follower.snapshot(), 0)
    assert restored.is_out(1)
    follower.follow(log[0])
    assert follower.drain() == [("resume", 1, b"here")]
    other, _, _ = build(live=False, mode=mode)
    other.follow(log[0])
    with pytest.raises(DivergenceError):
        other.invoke(1, Obtain("user name", bytes), 0)


def test_obtaining_too_much_is_refused() -> None:
    determinizer, _, log = build(live=True)
    with pytest.raises(UnsupportedOperationError):
        determinizer.invoke(1, Obtain("file", lambda: bytes(65_536)), 0)
    assert log == []


def test_what_was_peeked_is_read_first_and_once() -> None:
    determinizer, connections, log = build(live=True, incoming=1)
    connections.visible = 1
    determinizer.invoke(1, Accept(), 0)
    stream = connections.descriptors[1].stream
    connections.descriptors[1].arrived = 4
    for limit, peek in ((2, True), (9, True), (9, True), (3, False), (9, False)):
        determinizer.invoke(1, Receive(1, limit, peek=peek), 0)
    determinizer.invoke(1, Receive(1, 9, blocking=False), 0)
    results = [value for _, _, value in determinizer.drain()[2:]]
    assert results == [stream[:2], stream[:4], stream[:4], stream[:3], stream[3:4], WOULD_BLOCK]
    assert [entry[0] for entry in log[1:]] == [READ, READ, SOCKET, SOCKET, SOCKET, SOCKET]
