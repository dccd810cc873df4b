"""The watch's judgement, without Spark: exact places, bounded memory, nothing told twice."""

from __future__ import annotations

import random

import numpy as np
import pytest

from llft.pipeline.watch.watcher import (
    CLOCK_READ,
    GAP,
    LAG_LIMIT,
    OPERATED,
    PRIMARY,
    WINDOW,
    Alarm,
    Rows,
    Watcher,
)


def rows(*parts: tuple[int, int, int, int]) -> Rows:
    """Of tuples: code, replica, number, content."""
    table = np.array(parts, dtype=np.int64).reshape(-1, 4)
    return Rows(*(table[:, column] for column in range(4)))


def operations(replica: int, numbers: range, *, wrong_at: int = 0) -> list[tuple[int, int, int, int]]:
    return [(OPERATED, replica, number, 1000 + number + (number == wrong_at)) for number in numbers]


def places(alarms: list[Alarm]) -> list[tuple[str, int, int, int]]:
    return [(alarm.condition, alarm.order_seq_num, alarm.replica, alarm.other_replica) for alarm in alarms]


def test_replicas_that_agree_raise_nothing() -> None:
    watcher = Watcher()
    for start in range(1, 30_000, 700):
        numbers = range(start, start + 700)
        assert (
            watcher.step(rows(*operations(1, numbers), *operations(2, numbers), *operations(3, numbers)))
            == []
        )


@pytest.mark.parametrize("batch", [1, 7, 500, 3 * WINDOW])
def test_a_divergence_is_named_exactly_and_once(batch: int) -> None:
    watcher = Watcher()
    wrong_at, last = 1234, 3000
    found = []
    for start in range(1, last, batch):
        numbers = range(start, min(start + batch, last))
        found += watcher.step(rows(*operations(1, numbers), *operations(2, numbers, wrong_at=wrong_at)))
    assert places(found) == [("theorem2", wrong_at, 2, 1)]


def test_a_replica_that_reports_later_is_compared_all_the_same() -> None:
    watcher = Watcher()
    assert watcher.step(rows(*operations(1, range(1, LAG_LIMIT)))) == []
    assert places(watcher.step(rows(*operations(2, range(1, LAG_LIMIT), wrong_at=99)))) == [
        ("theorem2", 99, 2, 1)
    ]


def test_clocks_are_compared_by_themselves() -> None:
    watcher = Watcher()
    found = watcher.step(
        rows((CLOCK_READ, 1, 5, 7), (OPERATED, 1, 5, 8), (CLOCK_READ, 2, 5, 9), (OPERATED, 2, 5, 8))
    )
    assert places(found) == [("clock", 5, 2, 1)]


def test_a_second_primary_and_a_gap() -> None:
    watcher = Watcher()
    assert watcher.step(rows((PRIMARY, 1, 1, 1))) == []
    assert places(watcher.step(rows((PRIMARY, 2, 1, 1)))) == [("theorem1", 1, 2, 1)]
    assert places(watcher.step(rows((PRIMARY, 3, 2, 0)))) == [("theorem1", 2, 3, 3)]
    assert places(watcher.step(rows((GAP, 3, 17, 4)))) == [("gap", 17, 3, 0)]


def test_a_lag_is_told_when_it_begins() -> None:
    watcher = Watcher()
    watcher.step(rows(*operations(1, range(1, 10)), *operations(2, range(1, 10))))
    found = watcher.step(rows(*operations(1, range(10, LAG_LIMIT + 20))))
    assert places(found) == [("lag", 9, 2, 0)]
    assert watcher.step(rows(*operations(1, range(LAG_LIMIT + 20, LAG_LIMIT + 30)))) == []
    assert watcher.step(rows(*operations(2, range(10, LAG_LIMIT + 30)))) == []
    assert len(watcher.step(rows(*operations(1, range(LAG_LIMIT + 30, 3 * LAG_LIMIT))))) == 1


def test_the_state_is_bounded_and_goes_through_bytes() -> None:
    """Stopped and resumed anywhere, it gives the same alarms; and it does not grow."""
    chance = random.Random(5)
    stream = [
        rows(
            *operations(1, range(start, start + 300)),
            *operations(2, range(start, start + 300), wrong_at=20_100),
        )
        for start in range(1, 40_000, 300)
    ]
    straight = Watcher()
    expected = [alarm for part in stream for alarm in straight.step(part)]
    assert places(expected) == [("theorem2", 20_100, 2, 1)]
    resumed, found, sizes = Watcher(), [], []
    for part in stream:
        found += resumed.step(part)
        if chance.random() < 0.3:
            data = resumed.to_bytes()
            sizes.append(len(data))
            resumed = Watcher.from_bytes(data)
    assert found == expected
    assert max(sizes) < min(sizes) + 200
