"""Runs (D-72): however calls are cut into runs, log, results and state are those of single calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.config import ThreadMode
from llft.core.determinizer.determinizer import Determinizer
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
    TryClaim,
    Yield,
)
from llft.core.determinizer.outside import BLOCKED
from llft.core.determinizer.runs import (
    CLOCKS,
    NOTHING,
    NOTHING_CODE,
    RANDOM_CODE,
    RUN_MAX,
    Heard,
    Runs,
    pieces,
)
from llft.core.determinizer.token import TokenEngine
from llft.errors import InvariantError
from llft.wire.order import GENERAL, SOCKET, TIME, WAKE, Entry
from tests.unit.determinizer_world import Descriptor, FakeConnections

pytestmark = pytest.mark.reference  # stand-ins for parts of the core

QUANTUM = 8

operations = st.lists(
    st.sampled_from(
        [
            ReadClock(0),
            ReadClock(0),
            ReadClock(1),
            RandomBytes(4),
            Receive(1, 9, blocking=False),
            Receive(1, 9, blocking=False),
            Receive(2, 9, blocking=False),
            Yield(),
            TryClaim(1),
            Release(1),
        ]
    ),
    max_size=60,
)
cuts = st.lists(st.integers(0, 5), min_size=1, max_size=20)
"""How many calls of each run are made; 0: none is lent."""


class Member(Heard):
    """A determinizer, its program's one thread, and a shell that lends runs."""

    def __init__(self, *, live: bool) -> None:
        self.log: list[Entry] = []
        self.consumed: list[tuple[int, Entry]] = []
        self.clock = count(1000, 7)
        self.drawn = count(1)
        connections = FakeConnections(1, 0)
        connections.descriptors = {fd: Descriptor(b"", None) for fd in (1, 2)}
        self.determinizer = Determinizer(
            ThreadMode.TOKEN,
            connections,
            self.log.append,
            lambda _: next(self.clock),
            lambda size: next(self.drawn).to_bytes(size, "little"),
            quantum_calls=QUANTUM,
        )
        engine = self.determinizer.engine
        assert isinstance(engine, TokenEngine)
        self.engine = engine
        self.runs = Runs(engine, self)
        engine.on_consumed = lambda number, entry: self.consumed.append((number, entry))
        if live:
            self.determinizer.go_live(0)
        self.determinizer.start()
        self.determinizer.drain()

    def readings(self, number: int, pick: int, thread: int, clock_id: int, values: list[int]) -> None:
        self._heard(number, [(TIME, pick, thread, clock_id, value) for value in values])

    def counted(self, number: int, first: Entry, data: list[bytes]) -> None:
        self._heard(number, [(*first[:4], first[4] + index, each) for index, each in enumerate(data)])

    def _heard(self, number: int, entries: list[Entry]) -> None:
        if number:
            self.consumed += enumerate(entries, number)
        else:
            self.log += entries

    def called(self, operation: Operation) -> Any:
        """The usual way."""
        result = self.engine.at_once(1, operation, 0)
        if result is not BLOCKED:
            return result
        self.determinizer.invoke(1, operation, 0)
        ((what, thread, value),) = self.determinizer.drain()
        assert (what, thread) == ("resume", 1)
        return value

    def results(self, todo: list[Operation], cuts: Iterator[int]) -> list[Any]:
        """Of all these calls, as many of them in runs as the cuts say."""
        found: list[Any] = []
        while len(found) < len(todo):
            operation = todo[len(found)]
            found.append(self.called(operation))
            limit = next(cuts)
            if limit:
                found += self._in_run(todo[len(found) :], limit, operation)
        return found

    def _in_run(self, todo: list[Operation], limit: int, before: Operation) -> list[Any]:
        codes, values = bytearray(), []
        idle = before.fd if isinstance(before, Receive) else -1
        logged = ([], []) if self.engine.live else self.runs.logged(1)
        room = self.runs.room(1) if self.engine.live else len(logged[1])
        clocks, last = self.runs.clocks(), {}
        for operation in todo[: min(limit, room)]:
            code = code_of(operation)
            if code < 0 or (self.engine.live and isinstance(operation, Receive) and operation.fd != idle):
                break
            if self.engine.live and code == NOTHING_CODE:
                values.append(idle)
            elif self.engine.live and code == RANDOM_CODE:
                values.append(next(self.drawn).to_bytes(4, "little"))
            elif self.engine.live:
                values.append(next(self.clock) + clocks[2 * code])
                assert values[-1] >= last.get(code, clocks[2 * code + 1])
                last[code] = values[-1]
            else:
                assert logged[0][len(codes)] == code
                values.append(logged[1][len(codes)])
            codes.append(code)
        self.runs.take_back(1, bytes(codes), values, (5,) * CLOCKS, 0)
        return [
            WOULD_BLOCK if code == NOTHING_CODE else value for code, value in zip(codes, values, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        """Clocks apart: how often the local one was asked differs."""
        state = self.engine.capture()
        state["clock"] = {clock_id: last for clock_id, _, last in state["clock"]}
        return state | {
            "consumed": self.engine.consumed_count,
            "recorded": self.engine.outside.recorded_count,
        }


def code_of(operation: Operation) -> int:
    if isinstance(operation, ReadClock):
        return operation.clock_id
    if isinstance(operation, Receive):
        return NOTHING_CODE
    return RANDOM_CODE if isinstance(operation, RandomBytes) else -1


def over_and_over(cuts: list[int]) -> Iterator[int]:
    while True:
        yield from cuts


@given(operations, cuts, cuts)
def test_runs_change_nothing(todo: list[Operation], at_primary: list[int], at_backup: list[int]) -> None:
    single, primary = Member(live=True), Member(live=True)
    results = single.results(todo, over_and_over([0]))
    assert primary.results(todo, over_and_over(at_primary)) == results
    assert primary.log == single.log
    assert primary.state() == single.state()
    backup, behind = Member(live=False), Member(live=False)
    backup.determinizer.follow_all(primary.log)
    for entry in primary.log:
        behind.determinizer.follow(entry)
    assert backup.results(todo, over_and_over(at_backup)) == results
    assert behind.results(todo, over_and_over([0])) == results
    assert backup.consumed == behind.consumed == list(enumerate(primary.log, 1))
    assert backup.state() == behind.state()
    assert backup.determinizer.caught_up


def test_a_backup_that_is_promoted_goes_on_where_its_run_was_left() -> None:
    primary, backup = Member(live=True), Member(live=False)
    values = primary.results([ReadClock(0)] * 4, over_and_over([9]))
    backup.determinizer.follow_all(primary.log)
    assert backup.results([ReadClock(0)] * 2, over_and_over([9])) == values[:2]
    assert not backup.determinizer.caught_up
    assert backup.results([ReadClock(0)] * 2, over_and_over([9])) == values[2:]
    backup.determinizer.go_live(0)
    assert backup.results([ReadClock(0)] * 3, over_and_over([9]))[0] >= values[-1]


def test_a_thread_that_does_something_else_than_its_run_has_diverged() -> None:
    primary, backup = Member(live=True), Member(live=False)
    primary.results([ReadClock(0)] * 4, over_and_over([9]))
    backup.determinizer.follow_all(primary.log)
    backup.called(ReadClock(0))
    assert backup.runs.logged(1)[0] == bytes(3)
    with pytest.raises(Exception, match="replica_left_the_order"):
        backup.called(RandomBytes(4))


def test_what_is_lent_ends_before_anything_that_is_not_a_call_of_the_thread() -> None:
    backup = Member(live=False)
    first: Entry = (TIME, 1, 1, 0, 50)
    others: list[Entry] = [
        (TIME, 1, 2, 0, 60),
        (TIME, 2, 1, 0, 60),
        (TIME, 1, 1, 9, 60),
        (TIME, 1, 1, 0, 40),
        (GENERAL, 1, 1, 7, 1, b"abc"),
        (GENERAL, 1, 1, 1, 3, b"abc"),
        (SOCKET, 1, 1, 1, 2, NOTHING),
        (SOCKET, 1, 1, 1, 1, b"?"),
        (WAKE, 1, 1),
    ]
    for other in others:
        backup = Member(live=False)
        backup.determinizer.follow_all([first, (TIME, 1, 1, 0, 51), other, (TIME, 1, 1, 0, 70)])
        assert backup.runs.logged(1) == (b"\0\0", [50, 51]), other


def test_nothing_is_lent_but_to_the_thread_that_runs() -> None:
    primary = Member(live=True)
    assert primary.runs.room(1) == QUANTUM - 1
    assert primary.runs.room(2) == 0
    primary.determinizer.held = True
    assert primary.runs.room(1) == 0
    primary.called(Yield())
    primary.determinizer.held = False
    for made in range(1, QUANTUM):
        primary.called(ReadClock(0))
        assert primary.runs.room(1) == QUANTUM - 1 - made
    with pytest.raises(InvariantError, match="run_too_long"):
        primary.runs.take_back(1, b"\0", [5000], (0, 0, 0), 0)


def test_a_clock_never_goes_back_in_a_run() -> None:
    primary = Member(live=True)
    value = primary.called(ReadClock(0))
    with pytest.raises(InvariantError, match="group_clock_rolled_back"):
        primary.runs.take_back(1, b"\0", [value - 1], (0, 0, 0), 0)


def test_codes_come_in_pieces() -> None:
    assert pieces(b"") == []
    assert pieces(b"\0\0\1\0") == [(0, 0, 2), (1, 2, 3), (0, 3, 4)]
    assert RUN_MAX >= QUANTUM
