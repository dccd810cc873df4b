"""What the driver tells the core of a program's past: when all of it is here, and not before (D-70)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llft.config import ThreadMode
from llft.core.effects import CaptureState
from llft.errors import InvariantError
from llft.identifiers import BirthId
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Checkpoint, pack
from llft.runtime.driver import Driver
from llft.runtime.state import exchange
from tests.unit.test_driver import Silence, make_driver

Done = Callable[[BirthLog, Any], None]


class Fetching(Silence):
    """A world that takes its time."""

    def __init__(self) -> None:
        self.asked: list[Done] = []

    def restore(self, checkpoint: Checkpoint, done: Done) -> None:
        self.asked.append(done)


def joiner() -> tuple[Driver, Fetching]:
    driver, world = make_driver(ThreadMode.TOKEN), Fetching()
    driver.world = world
    return driver, world


def test_the_core_hears_of_it_when_the_log_is_here() -> None:
    driver, world = joiner()
    log = BirthLog()
    taken = Checkpoint(BirthId(1, 1, 1), log.length, log.digest, [], [], {})
    with driver.lock:
        exchange.restore(driver, pack(taken, log))
    assert not driver.core.standing.has_past
    (done,) = world.asked
    done(log, None)
    assert driver.core.standing.has_past


def test_nobody_is_told_where_a_program_is_whose_past_is_elsewhere() -> None:
    """It would be told that there is no past: a joiner would begin the program from nothing."""
    driver, _ = joiner()
    with pytest.raises(InvariantError, match="captured_without_past"):
        exchange.captured(driver, CaptureState())
    driver.core.standing.has_past = True
    assert exchange.captured(driver, CaptureState()).state
