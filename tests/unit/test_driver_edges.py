"""The driver where it meets the program: whose errors, whose output, whose frames."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from llft.config import ThreadMode
from llft.core import events
from llft.core.determinizer.operations import Operation, RandomBytes, ReadClock, Sleep, Yield
from llft.identifiers import BirthId
from llft.instant import MS
from llft.runtime import stack_room
from llft.runtime.application_thread import ApplicationThread
from llft.runtime.driver import Driver
from llft.runtime.pacemaker import Pacemaker
from llft.runtime.replica_process import ReplicaProcess
from llft.runtime.restoring import Restoring
from llft.runtime.stacks import stacks
from tests.unit.test_driver import make_driver, run_alone


class Dead(BaseException):
    """Not an Exception: a process that has died catches nothing any more."""


def died(reason: str) -> NoReturn:
    raise Dead(reason)


def run_main(driver: Driver, function: Callable[[], None]) -> list[BaseException]:
    """As the pump: there is no pacemaker."""
    failures: list[BaseException] = []

    def main() -> None:
        try:
            driver.run_main(function)
        except BaseException as error:  # noqa: BLE001 (the test looks at it)
            failures.append(error)

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    driver.happen(events.Started(alone=True))
    thread.join(10)
    assert not thread.is_alive()
    return failures


def test_a_failing_network_is_not_the_programs_error(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = make_driver(ThreadMode.TOKEN)
    seen: list[Exception] = []

    def work(now_ns: int) -> list[BirthId]:
        raise OSError(9, "Bad file descriptor")

    def program() -> None:
        monkeypatch.setattr(driver.network, "work", work)
        try:
            driver.call(Sleep(MS))
        except Exception as error:  # noqa: BLE001 (programs do this)
            seen.append(error)

    monkeypatch.setattr(driver.world, "died", died)
    failures = run_main(driver, program)
    assert seen == []
    assert [type(failure) for failure in failures] == [Dead]


@pytest.mark.reference
def test_a_pump_that_waits_learns_of_an_earlier_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = make_driver(ThreadMode.TOKEN)
    woken: list[None] = []

    def program() -> None:
        driver.application.pump = ApplicationThread(99, None)
        monkeypatch.setattr(driver.poller, "wake", lambda: woken.append(None))
        driver.call(Sleep(MS))
        assert woken == [None]
        driver.application.pump = None

    run_alone(driver, program)
    assert woken


@pytest.mark.reference
def test_what_the_runtime_says_does_not_pass_through_the_program(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Programs:
        def write(self, text: str) -> int:
            raise AssertionError("the program's code, run by the runtime")

        flush = write

    driver = make_driver(ThreadMode.TOKEN)
    monkeypatch.setattr(sys, "stderr", Programs())
    thread = driver.application.threads[1]
    thread.ident, thread.out_since_ns = threading.get_ident(), 1
    Pacemaker(driver, lambda: None)._watch_token(time.monotonic_ns())
    assert "has run for" in (told := capfd.readouterr().err)
    assert "_watch_token" in told


def test_the_log_outlives_the_programs_descriptor(tmp_path: Path) -> None:
    """In a process of its own: it closes its descriptor 2."""
    text = """
import os
from llft.runtime import own_log
own_log.keep()
os.close(2)
own_log.write("still \\udc80 there\\n")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=30, check=True)
    assert done.stderr == b"still \\udc80 there\n"


def test_looking_at_threads_takes_no_frames() -> None:
    go_on, here = threading.Event(), threading.Event()

    def waits_there() -> None:
        here.set()
        go_on.wait(10)

    thread = threading.Thread(target=waits_there)
    thread.start()
    assert here.wait(10)
    before = sum(type(thing).__name__ == "frame" for thing in gc.get_objects())
    found = stacks()
    after = sum(type(thing).__name__ == "frame" for thing in gc.get_objects())
    go_on.set()
    thread.join(10)
    assert thread.ident is not None
    assert any("in waits_there" in line for line in found[thread.ident])
    assert after == before


class Life:
    """Of a replica process, as much as a restoring thread sees."""

    def __init__(self) -> None:
        self.driver = make_driver(ThreadMode.TOKEN)

    def died(self, reason: str) -> NoReturn:
        raise Dead(reason)


def test_a_restore_that_fails_unexpectedly_ends_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Dead):
        Restoring(cast(Any, Life())).restore(cast(Any, None), lambda data: None)
    assert "AttributeError: 'NoneType'" in capfd.readouterr().err


class Part:
    """Of a process: nothing to do."""

    def work(self, *arguments: object, **options: object) -> None: ...
    def filenos(self) -> tuple[int, ...]:
        return ()

    def take_ready(self) -> set[int]:
        return set()

    def take_certificates(self) -> list[BirthId]:
        return []


@pytest.mark.reference
def test_a_signal_that_comes_while_wishes_are_granted_is_not_lost() -> None:
    process: Any = object.__new__(ReplicaProcess)
    process.liveness = process.control = process.poller = Part()
    granted: list[events.Event] = []

    class Granting:
        def wish(self, event: events.Event) -> None:
            granted.append(event)

    class Wishes(list[events.Event]):
        """The handler runs when the last one has been granted."""

        def clear(self) -> None:
            self.append(events.LeaveRequested())
            super().clear()

        def __bool__(self) -> bool:
            if len(granted) == 1:
                self.append(events.LeaveRequested())
            return len(self) > 0

    process.driver = Granting()
    process.wishes = Wishes([events.SwitchRequested()])
    process.work(0)
    assert granted == [events.SwitchRequested(), events.LeaveRequested()]


def test_a_program_at_its_recursion_limit_may_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every depth: a call is made whole, or the program gets its RecursionError and nothing was done."""
    driver = make_driver(ThreadMode.TOKEN)
    monkeypatch.setattr(driver.world, "died", died)
    outcomes: list[object] = []

    def descend(operation: Operation) -> None:
        try:
            descend(operation)
        except RecursionError:
            outcomes.append(driver.call(operation))

    def program() -> None:
        for operation in (ReadClock(1), Sleep(MS), RandomBytes(3), Yield()):
            with contextlib.suppress(RecursionError):
                descend(operation)
            outcomes.append(driver.call(ReadClock(1)))

    run_alone(driver, program)
    assert len(outcomes) == 8, outcomes
    assert [type(outcome) for outcome in outcomes[:6]] == [int, int, type(None), int, bytes, int]
    assert driver.application.log.length


def test_room_on_the_stack_is_known() -> None:
    rooms = (stack_room.of_this_thread(), stack_room._Counted())
    assert stack_room._OFFSET >= 0, "counting the frames takes longer than it may"
    for room in rooms:

        def deeper(levels: int, room: stack_room.Room = room) -> int:
            return room.value if levels == 0 else deeper(levels - 1)

        assert room.value - deeper(50) >= 51
        assert 0 < deeper(50) < sys.getrecursionlimit()
