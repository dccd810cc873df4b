"""When a backup asks the kernel about its primary (D-73), and what it does with the answer."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from llft.config import ThreadMode
from llft.core import events
from llft.core.standing import BACKUP, PRIMARY
from llft.identifiers import BirthId, Member, ViewId
from llft.instant import MS, NEVER
from llft.runtime.native.lifeline import LIVING, STOPPED, Lifeline
from llft.runtime.pacemaker import ALERT_NS, LOOK_AGAIN_NS, Pacemaker
from tests.unit.test_driver import make_driver

OTHER = BirthId(1, 2, 3)


class Watched:
    """A lifeline that says what the test wants."""

    def __init__(self) -> None:
        self.answer = LIVING[0]
        self.asked: list[BirthId] = []
        self.hurried_ns = 0

    def state(self, birth_id: BirthId) -> bytes:
        self.asked.append(birth_id)
        return self.answer

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
    before_ns = time.monotonic_ns()
    pacemaker._look_at_primary()
    assert (watched.asked, told) == ([OTHER], [events.PeerRuns(OTHER)]), "it does not get a processor"
    assert pacemaker._look_ns() >= before_ns + LOOK_AGAIN_NS
    watched.answer = STOPPED
    pacemaker._look_at_primary()
    assert told[1:] == [events.PeerStopped(OTHER)]
    for watched.answer in (b"", b"t", b"Z"):  # it cannot be known, a debugger has it, a certificate comes
        pacemaker._look_at_primary()
        assert len(told) == 2, "that is for the timeout"
    core.standing.role = PRIMARY
    assert pacemaker._look_ns() == NEVER


@pytest.mark.reference
def test_it_looks_while_a_dialogue_lasts_that_it_hears_nothing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core is told of Heartbeats when that ends. It ends for one that is stopped, and for no other."""
    pacemaker, watched, told = backup(monkeypatch)
    driver, heard_ns = pacemaker.driver, time.monotonic_ns()
    lasting: Any = SimpleNamespace(
        serves=lambda: True, primary_heard_ns=lambda: heard_ns, deadline_ns=NEVER, patience_ns=0
    )
    monkeypatch.setattr(driver, "dialogues", lasting)
    monkeypatch.setattr(driver, "work", lambda: told.append("hears what has come"))
    pacemaker._housekept_ns = NEVER
    driver.core.detector.restart(OTHER, heard_ns - 100 * MS)
    driver.core.pause_ns = 10 * MS
    pacemaker.wake()
    pacemaker._beat()
    assert watched.asked == [], "it has just been heard"
    heard_ns -= 100 * MS
    for watched.answer, expected in (
        (LIVING[0], []),
        (STOPPED, ["hears what has come", events.PeerStopped(OTHER)]),
    ):
        pacemaker._looked_ns = 0
        pacemaker.wake()
        pacemaker._beat()
        assert told == expected
    assert set(watched.asked) == {OTHER}


@pytest.mark.reference
@pytest.mark.parametrize(("answer", "left"), [(LIVING[0], []), (b"", ["timeout"]), (STOPPED, ["stopped"])])
def test_it_looks_once_more_before_it_suspects(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, left: list[str]
) -> None:
    """Whoever serves the network, and however late it comes to it."""
    pacemaker, watched, _ = backup(monkeypatch)
    core, driver, suspected = pacemaker.driver.core, pacemaker.driver, []
    watched.answer = answer
    monkeypatch.setattr(driver, "wish", driver.step)
    monkeypatch.setattr(core.primary_change, "on_primary_timeout", suspected.append)
    core.standing.membership = (Member(OTHER, 1), Member(core.standing.birth_id, 2))
    silent_ns = core.detector.primary_patience_ns(2) + MS
    core.last_step_ns = time.monotonic_ns()
    core.detector.restart(OTHER, core.last_step_ns - silent_ns)
    driver.work()
    assert watched.asked == [OTHER]
    assert suspected[:1] == left


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
