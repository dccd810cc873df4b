"""Whose business the network is when a call leaves a dialogue, or is to be made in one (`calling`)."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from llft.core.determinizer.operations import Park
from llft.runtime.calling import Calling

pytestmark = pytest.mark.reference


def driver_of(*, live: bool, due_ns: int = 1 << 62) -> Any:
    done: list[str] = []
    return SimpleNamespace(
        done=done,
        token=True,
        pump_held=False,
        polled_until_ns=0,
        application=SimpleNamespace(pump=None),
        core=SimpleNamespace(live=live, next_deadline=lambda: due_ns),
        may_pump=lambda: live,
        nobody_serves=lambda: True,
        pump=lambda thread: done.append("pumps"),
        wake_pacemaker=lambda: done.append("wakes the pacemaker"),
        poller=SimpleNamespace(poll=lambda wait_ns: done.append("polls")),
        work=lambda: done.append("works"),
    )


def test_at_a_backup_the_pacemaker_is_woken() -> None:
    """It dozes while a dialogue lasts: else nobody would hear the network for milliseconds."""
    driver = driver_of(live=False)
    Calling(driver)._serve(SimpleNamespace(operation=Park()))  # type: ignore[arg-type]
    assert driver.done == ["wakes the pacemaker"]


def test_at_a_primary_the_thread_serves_itself() -> None:
    driver = driver_of(live=True)
    Calling(driver)._serve(SimpleNamespace(operation=Park()))  # type: ignore[arg-type]
    assert driver.done == ["pumps"]


@pytest.mark.parametrize(("live", "due", "overdue"), [(True, -1, True), (True, 1, False), (False, -1, True)])
def test_what_is_due_is_seen_to(live: bool, due: int, overdue: bool) -> None:
    """No dialogue would be lent meanwhile, and threads that wake one another, or are behind, may not wait for
    long."""
    driver = driver_of(live=live, due_ns=time.monotonic_ns() + due * 1_000_000_000)
    assert Calling(driver)._is_overdue() is overdue
