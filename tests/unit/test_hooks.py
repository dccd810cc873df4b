"""Hooks as a source of state: where the program stands, and where it stood. The program is driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llft.core.determinizer.operations import Operation, Park, ReadClock, Select, Sleep
from llft.errors import DivergenceError
from llft.instant import SECOND
from llft.past.birth_log import OPERATION_KINDS
from llft.past.keeper import Keeper, Verdict
from llft.past.source import Captured
from llft.past.witness import Witness
from llft.runtime.application import Application
from llft.runtime.state.hooks import Hooks

LOG_BYTES = 100
HERE, THERE = Select((0,), -1), Sleep(1)
"""Two calls at which this program waits for the outside."""


class Program:
    """Thread 1, which waits at the call that it is told to; interposition and scratch process as well."""

    def __init__(self, directory: Path) -> None:
        self.application = Application(
            ordered=False, open_gate=lambda gate: None, start_thread=lambda thread: None
        )
        self.application.add_thread(1, None)
        self.application.start(1, "")
        self._call(HERE)
        self.connected = False
        self.restored = b""
        self.ticks = 0
        self.module = SimpleNamespace(__llft_snapshot__=lambda: b"state", __llft_restore__=self._take)
        self.witness: Witness | None = None
        self.said: list[str] = []
        self.hooks = Hooks(self.application, self, str(directory / "state"))
        self.keeper = Keeper(
            self.application,
            self.hooks,
            lambda captured, head, followed: self,
            self.said.append,
            lambda path: Path(path).unlink(missing_ok=True),
            log_bytes=LOG_BYTES,
        )

    def _take(self, state: bytes) -> None:
        self.restored = state

    def _call(self, operation: Operation) -> None:
        thread = self.application.threads[1]
        thread.given = False
        self.application.called(thread, OPERATION_KINDS[type(operation)], self.application.about(operation))

    def live(self, last: Operation, calls: int = 100) -> None:
        """Some calls; it waits at the last one."""
        for number in range(calls):
            self.application.give(1, number)
            self._call(ReadClock(1) if number < calls - 1 else last)

    def checkpoint(self, now_ns: int, at: Operation) -> Captured | None:
        """One round; what was captured, if anything."""
        before = self.keeper.base
        self.live(at)
        self._tend(now_ns)
        self.live(HERE)
        self._tend(now_ns + 3 * SECOND)
        self._tend(now_ns + 3 * SECOND + SECOND // 2)
        base = self.keeper.base
        return None if base is None or base is before else Captured("", base.position, base.digest, 0)

    def _tend(self, now_ns: int) -> None:
        self.keeper.tend(now_ns)
        self.witness = self.application.witness or self.witness

    # -- the interposition, and the scratch process ----------------------------------------------------

    def is_connected(self) -> bool:
        return self.connected

    def descriptors(self) -> list[str]:
        return []

    def marks(self) -> Mapping[str, Any]:
        return {"ticks": self.ticks}

    def adopt(self, marks: Mapping[str, Any]) -> None: ...
    def has_begun(self) -> bool:
        return True

    def leave_out(self, prefix: str) -> None: ...
    def outside_state(self) -> str:
        return ""

    def remake(self, temporary: str) -> None: ...
    def main(self) -> Any:
        return self.module

    def verdict(self) -> Verdict:
        """The scratch process comes to what the witness saw."""
        assert self.witness is not None
        return Verdict(self.witness.digest, self.witness.count, "content", 5)

    def end(self) -> None: ...


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_state_is_captured_where_the_program_stood_before(program: Program) -> None:
    program.hooks.look()
    ready = program.application.log.length
    program.live(HERE)
    assert program.hooks.obstacle() == ""
    captured = program.hooks.capture()
    assert (captured.position, captured.head_bytes) == (program.application.log.length, ready)
    program.live(THERE)
    assert "did not stand" in program.hooks.obstacle()


def test_no_state_is_captured_under_a_connection(program: Program) -> None:
    program.hooks.look()
    program.connected = True
    assert program.hooks.obstacle() == "a connection is open"


def test_a_call_that_waits_for_order_information_is_no_rest(program: Program) -> None:
    """At a backup every call may have to wait; a primary will never be seen standing there."""
    program.live(ReadClock(1))
    program.hooks.look()
    program.live(ReadClock(1))
    assert program.hooks.obstacle() == "its threads are about to go on"
    program.live(Park())
    assert "did not stand" in program.hooks.obstacle()


def test_a_ready_point_whose_log_was_dropped_is_none(program: Program) -> None:
    """Two ready points; what is kept of the beginning is what the checkpoints need, which were all taken
    at the first. At the second there is then no checkpoint, and it is no failure: it waits for the first."""
    program.hooks.look()
    program.live(THERE)
    program.hooks.look()
    assert program.hooks.obstacle() == ""
    assert program.checkpoint(0, at=HERE)
    assert program.checkpoint(10 * SECOND, at=HERE)
    log = program.application.log
    assert log.start > 0
    assert program.checkpoint(20 * SECOND, at=THERE) is None
    assert program.keeper.failed_count == 0
    assert not [said for said in program.said if said.startswith("no checkpoint:")]
    assert program.checkpoint(30 * SECOND, at=HERE)


def test_a_restored_program_stands_at_its_ready_point(program: Program, tmp_path: Path) -> None:
    program.hooks.look()
    head = program.application.log.length
    program.live(HERE)
    captured = program.hooks.capture()
    other = Program(tmp_path)
    other.application.log.drop_before(other.application.log.length, 0, head_bytes=head)
    other.hooks.restore(Path(captured.path).read_bytes())
    assert other.restored == b"state"
    other.live(HERE)
    assert other.hooks.obstacle() == ""
    assert other.hooks.capture().head_bytes == head


def test_who_came_to_the_ready_point_with_other_counts_is_found_out(program: Program, tmp_path: Path) -> None:
    """A module that only one process has imported takes locks in the other: threads yield elsewhere."""
    program.hooks.look()
    program.ticks = 40
    program.live(HERE)
    state = Path(program.hooks.capture().path).read_bytes()
    other = Program(tmp_path)
    other.hooks.check_counts(state)
    other.ticks = 1
    with pytest.raises(DivergenceError, match="began_differently"):
        other.hooks.check_counts(state)


@pytest.mark.parametrize("snapshot", [lambda: "text", lambda: 1 / 0])
def test_a_snapshot_that_is_none_is_told(program: Program, snapshot: Callable[[], object]) -> None:
    program.module.__llft_snapshot__ = snapshot
    program.hooks.look()
    program.live(HERE)
    program.keeper.tend(0)
    assert "no checkpoint: __llft_snapshot__" in program.said[-1]
