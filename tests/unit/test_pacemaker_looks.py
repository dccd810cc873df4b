"""When a backup asks the kernel about its primary (D-73), and what it does with the answer."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from llft.config import ThreadMode
from llft.core import events
from llft.core.standing import BACKUP, PRIMARY
from llft.identifiers import BirthId, ViewId
from llft.instant import MS, NEVER
from llft.runtime.native.lifeline import Lifeline
from llft.runtime.pacemaker import ALERT_NS, LOOK_AGAIN_NS, Pacemaker
from tests.unit.test_driver import make_driver

OTHER = BirthId(1, 2, 3)


class Watched:
    """A lifeline that says what the test wants."""

    def __init__(self) -> None:
        self.stopped = False
        self.asked: list[BirthId] = []
        self.hurried_ns = 0

    def is_stopped(self, birth_id: BirthId) -> bool:
        self.asked.append(birth_id)
        return self.stopped

    def rest(self) -> None:
        self.hurried_ns = 0


def backup(monkeypatch: pytest.MonkeyPatch) -> tuple[Pacemaker, Watched, list[Any]]:
    driver, watched, told = make_driver(ThreadMode.TOKEN), Watched(), []
    monkeypatch.setattr(driver, "wish", told.append)
    driver.core.standing.role = BACKUP
    driver.core.standing.view = ViewId(1, 1, OTHER)
    return Pacemaker(driver, lambda: None, lambda: cast(Lifeline, watched)), watched, told


@pytest.mark.reference
def test_it_looks_after_three_heartbeats_of_silence_and_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    pacemaker, watched, told = backup(monkeypatch)
    core = pacemaker.driver.core
    assert pacemaker._look_ns() >= NEVER, "it does not watch anybody yet"
    heard_ns = time.monotonic_ns() - 100 * MS
    core.detector.restart(OTHER, heard_ns)
    assert pacemaker._look_ns() == heard_ns + 3 * core.config.timeouts.heartbeat_interval_ns
    pacemaker._served_ns = time.monotonic_ns()
    pacemaker._look_at_primary()
    assert (watched.asked, told) == ([OTHER], []), "it does not get a processor: that is for the timeout"
    assert pacemaker._look_ns() == pacemaker._served_ns + LOOK_AGAIN_NS
    watched.stopped = True
    pacemaker._look_at_primary()
    assert told == [events.PeerStopped(OTHER)]
    core.standing.role = PRIMARY
    assert pacemaker._look_ns() == NEVER


@pytest.mark.reference
def test_who_came_first_for_a_death_is_like_others_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    pacemaker, watched, _ = backup(monkeypatch)
    watched.hurried_ns = 1000
    pacemaker._calm_down(1000 + ALERT_NS)
    assert watched.hurried_ns
    pacemaker._calm_down(1001 + ALERT_NS)
    assert not watched.hurried_ns


@pytest.mark.reference
def test_a_thread_that_leaves_its_dialogue_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would be woken by the same, and only one of them is."""
    pacemaker, _, _ = backup(monkeypatch)
    driver, polled = pacemaker.driver, []
    monkeypatch.setattr(driver, "work", lambda: None)
    monkeypatch.setattr(driver.poller, "poll", lambda wait_ns: polled.append(wait_ns) or False)
    for leaving in (driver.application.threads[1], None):
        driver.dialogues.leaving = leaving
        pacemaker.wake()
        pacemaker._beat()
        assert bool(polled) == (leaving is None)
