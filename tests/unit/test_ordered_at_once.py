"""Ordered mode: calls that are completed then and there, and those that must not be tried."""

from __future__ import annotations

from typing import Any

from llft.config import ThreadMode
from llft.core.determinizer.determinizer import Determinizer
from llft.core.determinizer.operations import Claim, ReadClock, Release, Spawn, TryClaim, Yield
from llft.core.determinizer.outside import BLOCKED
from llft.wire.order import MUTEX, Entry
from tests.unit.determinizer_world import FakeConnections


def build(*, live: bool) -> tuple[Determinizer, list[Entry]]:
    """With two threads."""
    log: list[Entry] = []
    determinizer = Determinizer(ThreadMode.ORDERED, FakeConnections(1, 0), log.append, lambda _: 1000, bytes)
    if live:
        determinizer.go_live(0)
    determinizer.start()
    if live:
        determinizer.invoke(1, Spawn(None), 0)
        determinizer.drain()
        log.clear()
    return determinizer, log


def state(determinizer: Determinizer) -> dict[str, Any]:
    return {**determinizer.engine.capture(), **determinizer.statistics()}


def test_a_primary_claims_and_releases_what_nobody_holds() -> None:
    determinizer, log = build(live=True)
    at_once = determinizer.engine.at_once
    assert at_once(1, Claim(5), 0) is True
    assert at_once(2, TryClaim(5), 0) is False
    assert at_once(1, Release(5), 0) is True
    assert at_once(1, ReadClock(0), 0) == 1000
    assert [entry[0] for entry in log[:3]] == [MUTEX] * 3
    assert determinizer.drain() == []


def test_what_would_wait_changes_nothing() -> None:
    determinizer, log = build(live=True)
    at_once = determinizer.engine.at_once
    assert at_once(1, Claim(5), 0) is True
    before, recorded = state(determinizer), len(log)
    for operation in (Claim(5), Claim(6, 1000), Yield()):
        assert at_once(2, operation, 0) is BLOCKED
    determinizer.held = True
    assert at_once(2, TryClaim(7), 0) is BLOCKED
    assert (state(determinizer), len(log)) == (before, recorded)
    assert determinizer.drain() == []


def test_a_mutex_that_somebody_waits_for_is_handed_on_by_an_event() -> None:
    determinizer, _ = build(live=True)
    at_once = determinizer.engine.at_once
    assert at_once(1, Claim(5), 0) is True
    determinizer.invoke(2, Claim(5), 0)
    assert at_once(1, Release(5), 0) is BLOCKED
    assert at_once(2, ReadClock(0), 0) is BLOCKED, "it waits"
    determinizer.invoke(1, Release(5), 0)
    assert determinizer.drain() == [("resume", 2, True), ("resume", 1, True)]


def test_a_backup_completes_what_is_first_in_the_log() -> None:
    primary, log = build(live=True)
    for operation in (Claim(5), Release(5)):
        primary.engine.at_once(1, operation, 0)
    primary.engine.at_once(2, Claim(5), 0)
    backup, _ = build(live=False)
    backup.follow((6, 0, 1, 2, 1, b""))  # Spawn
    backup.invoke(1, Spawn(None), 0)
    backup.drain()
    assert backup.engine.at_once(1, Claim(5), 0) is BLOCKED, "nothing is known"
    for entry in log:
        backup.follow(entry)
    assert backup.engine.at_once(2, Claim(5), 0) is BLOCKED, "not its turn"
    assert backup.engine.at_once(1, Claim(5), 0) is True
    assert backup.engine.at_once(1, Release(5), 0) is True
    assert backup.engine.at_once(2, Claim(5), 0) is True
    assert backup.caught_up
    assert backup.drain() == []


def test_who_waits_at_a_backup_goes_on_when_its_turn_comes() -> None:
    primary, log = build(live=True)
    for thread, operation in ((1, Claim(5)), (1, Release(5)), (2, Claim(5))):
        primary.engine.at_once(thread, operation, 0)
    backup, _ = build(live=False)
    backup.follow((6, 0, 1, 2, 1, b""))
    backup.invoke(1, Spawn(None), 0)
    backup.drain()
    for entry in log:
        backup.follow(entry)
    backup.invoke(2, Claim(5), 0)
    assert backup.engine.at_once(1, Claim(5), 0) is True
    assert backup.drain() == []
    assert backup.engine.at_once(1, Release(5), 0) is True
    assert backup.drain() == [("resume", 2, True)]
