"""Mutexes in ordered mode, call by call: claims whose time passes, and what is kept of free ones."""

from __future__ import annotations

import pytest

from llft.config import ThreadMode
from llft.core.determinizer.determinizer import Determinizer
from llft.core.determinizer.operations import PASSING_MUTEX, Claim, Release, Spawn, TryClaim
from llft.errors import DivergenceError, UnsupportedOperationError
from llft.instant import NEVER
from llft.wire.order import MUTEX, Entry
from tests.unit.determinizer_world import FakeConnections

LOCK = PASSING_MUTEX + 5


def build(log: list[Entry], mode: ThreadMode = ThreadMode.ORDERED) -> Determinizer:
    return Determinizer(mode, FakeConnections(1, 0), log.append, lambda _: 1000, bytes)


def primary_with_two_threads(mutex: int = LOCK) -> tuple[Determinizer, list[Entry]]:
    """Thread 1 holds the mutex."""
    log: list[Entry] = []
    determinizer = build(log)
    determinizer.go_live(0)
    determinizer.start()
    determinizer.invoke(1, Spawn(None), 0)
    determinizer.invoke(1, Claim(mutex), 0)
    determinizer.drain()
    return determinizer, log


def backup_with_two_threads(log: list[Entry]) -> Determinizer:
    determinizer = build([])
    determinizer.start()
    for entry in log:
        determinizer.follow(entry)
    determinizer.invoke(1, Spawn(None), 0)
    determinizer.invoke(1, Claim(LOCK), 0)
    determinizer.drain()
    return determinizer


def mutex_entries(log: list[Entry]) -> list[tuple[object, ...]]:
    """(thread, mutex, count, result)."""
    return [entry[2:] for entry in log if entry[0] == MUTEX]


def test_a_claim_whose_time_passes_says_so_at_every_replica() -> None:
    primary, log = primary_with_two_threads()
    primary.invoke(2, Claim(LOCK, 10), 0)
    primary.poke(9)
    assert (primary.drain(), primary.next_deadline()) == ([], 10)
    primary.poke(10)
    assert (primary.drain(), primary.next_deadline()) == ([("resume", 2, False)], NEVER)
    assert mutex_entries(log) == [(1, LOCK, 1, 1), (2, LOCK, 2, 0)]
    primary.invoke(1, Release(LOCK), 11)
    assert primary.drain() == [("resume", 1, True)], "who has given up does not inherit"

    backup = backup_with_two_threads(log)
    backup.invoke(2, Claim(LOCK, 10), 0)
    backup.invoke(1, Release(LOCK), 0)
    assert backup.drain() == [("resume", 2, False), ("resume", 1, True)]
    assert backup.caught_up


def test_a_claim_that_inherits_in_time_has_no_deadline_any_more() -> None:
    primary, log = primary_with_two_threads()
    primary.invoke(2, Claim(LOCK, 10), 0)
    primary.invoke(1, Release(LOCK), 9)
    assert primary.drain() == [("resume", 2, True), ("resume", 1, True)]
    primary.poke(20)
    assert (primary.drain(), primary.next_deadline()) == ([], NEVER)

    backup = backup_with_two_threads(log)
    backup.invoke(2, Claim(LOCK, 10), 0)
    assert backup.drain() == []
    backup.invoke(1, Release(LOCK), 50)
    assert backup.drain() == [("resume", 1, True), ("resume", 2, True)]


def test_a_promoted_backup_lets_the_time_pass() -> None:
    _, log = primary_with_two_threads()
    backup = backup_with_two_threads(log)
    backup.invoke(2, Claim(LOCK, 10), 0)
    backup.go_live(5)
    assert (backup.drain(), backup.next_deadline()) == ([], 10)
    backup.poke(10)
    assert backup.drain() == [("resume", 2, False)]


def test_a_restored_one_lets_the_time_pass_too() -> None:
    primary, _ = primary_with_two_threads()
    primary.invoke(2, Claim(LOCK, 10), 0)
    primary.drain()
    restored = build([])
    restored.restore(primary.snapshot(), 100)
    restored.go_live(105)
    assert restored.next_deadline() == 110
    restored.poke(110)
    assert restored.drain() == [("resume", 2, False)]


def test_a_claim_without_a_timeout_cannot_have_failed() -> None:
    primary, log = primary_with_two_threads()
    primary.invoke(2, Claim(LOCK, 0), 0)
    backup = backup_with_two_threads(log)
    with pytest.raises(DivergenceError):
        backup.invoke(2, Claim(LOCK), 0)


@pytest.mark.parametrize(("mutex", "kept"), [(7, {(MUTEX, 7): 5}), (LOCK, {})])
def test_nothing_is_kept_of_a_passing_mutex_that_is_free(mutex: int, kept: dict[object, int]) -> None:
    primary, log = primary_with_two_threads(mutex)
    primary.invoke(2, TryClaim(mutex), 0)
    primary.invoke(1, Release(mutex), 0)
    primary.invoke(2, TryClaim(mutex), 0)
    primary.invoke(2, Release(mutex), 0)
    assert primary.drain()[-1] == ("resume", 2, True)
    counts = [count for _, _, count, _ in mutex_entries(log)]
    assert counts == ([1, 2, 3, 4, 5] if kept else [1, 2, 3, 1, 2])
    held = primary.statistics()["mutexes_held"]
    state = primary.snapshot().decode()
    assert (held, str(LOCK) in state) == (0, False)


def test_under_the_token_only_park_knows_the_time() -> None:
    determinizer = build([], ThreadMode.TOKEN)
    determinizer.go_live(0)
    determinizer.start()
    with pytest.raises(UnsupportedOperationError):
        determinizer.invoke(1, Claim(LOCK, 10), 0)
