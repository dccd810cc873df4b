"""The watch's judgement, without Spark: exact places, bounded memory, nothing told twice."""

from __future__ import annotations

import random

import numpy as np
import pytest

from llft.pipeline.watch.watcher import (
    CLOCK_READ,
    GAP,
    LAG_LIMIT,
    MEMBER,
    OPERATED,
    PRIMARY,
    VIEW,
    WINDOW,
    Alarm,
    Rows,
    Watcher,
    view_key,
)

VIEW1, VIEW2, VIEW3 = view_key(1, 1), view_key(2, 2), view_key(4, 3)


def rows(*parts: tuple[int, int, int, int], view: int = VIEW1) -> Rows:
    """Of tuples: code, replica, number, content. Replica 1 is the primary."""
    table = np.array(parts, dtype=np.int64).reshape(-1, 4)
    return Rows(*(table[:, column] for column in range(4)), np.full(len(parts), view), table[:, 1] == 1)


def together(*parts: Rows) -> Rows:
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


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


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3), (2, 3, 1)])
@pytest.mark.parametrize("at_once", [False, True])
def test_the_primary_is_right_whoever_reports_first(order: tuple[int, ...], *, at_once: bool) -> None:
    """One alarm for one divergence; and it lasts."""
    parts = [rows(*operations(one, range(1, 60), wrong_at=8 if one == 2 else 0)) for one in order]
    watcher = Watcher()
    found = (
        watcher.step(together(*parts))
        if at_once
        else [alarm for part in parts for alarm in watcher.step(part)]
    )
    assert [(alarm.condition, alarm.order_seq_num) for alarm in found] == [("theorem2", 8)]
    if at_once or order[:2] != (2, 3):  # of two backups alone nobody knows who is wrong
        assert found[0].replica == 2


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
    assert places(watcher.step(rows((PRIMARY, 3, 2, 0), view=VIEW2))) == [("theorem1", 2, 3, 3)]
    assert places(watcher.step(rows((GAP, 3, 17, 4)))) == [("gap", 17, 3, 0)]


def test_two_branches_may_both_have_a_second_view() -> None:
    watcher = Watcher()
    assert watcher.step(rows((PRIMARY, 2, 2, 1), view=VIEW2)) == []
    assert watcher.step(rows((PRIMARY, 3, 2, 1), view=view_key(3, 2))) == []


@pytest.mark.parametrize("later_first", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_what_nobody_heard_of_is_no_divergence(*, later_first: bool, at_once: bool) -> None:
    """The old primary performed up to 60, the new view began at 50; whoever's journal comes first."""
    old = rows(*operations(1, range(1, 61), wrong_at=55))
    new = together(
        rows(*operations(2, range(1, 50))), rows((VIEW, 2, 50, 0), *operations(2, range(50, 80)), view=VIEW2)
    )
    parts = (new, old) if later_first else (old, new)
    watcher = Watcher()
    found = (
        watcher.step(together(*parts)) if at_once else [one for part in parts for one in watcher.step(part)]
    )
    assert found == []
    assert places(watcher.step(rows(*operations(3, range(50, 80), wrong_at=56), view=VIEW2))) == [
        ("theorem2", 56, 3, 2)
    ]


def test_what_came_before_a_view_is_the_same_in_it() -> None:
    """A replica that repeats the past does so in the present view."""
    watcher = Watcher()
    watcher.step(rows(*operations(1, range(1, 50))))
    watcher.step(rows((VIEW, 2, 50, 0), view=VIEW2))
    watcher.step(rows((VIEW, 2, 90, 0), view=VIEW3))
    assert places(watcher.step(rows(*operations(3, range(1, 60), wrong_at=49), view=VIEW3))) == [
        ("theorem2", 49, 3, 1)
    ]


def test_the_dead_and_those_who_join_do_not_lag() -> None:
    watcher = Watcher()
    watcher.step(rows(*operations(1, range(1, 10)), *operations(2, range(1, 10)), (MEMBER, 1, 1, 0)))
    assert watcher.step(rows(*operations(1, range(10, 2 * LAG_LIMIT)))) == []
    both = rows((MEMBER, 1, 2, 0), (MEMBER, 2, 2, 0))
    assert [alarm.condition for alarm in watcher.step(both)] == ["lag"]


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


@pytest.mark.parametrize("wrong_at", [1, WINDOW // 2, WINDOW + 1, 5 * WINDOW])
def test_rows_that_are_more_than_the_window_are_all_compared(wrong_at: int) -> None:
    numbers = range(1, 5 * WINDOW + 1)
    watcher = Watcher()
    both = rows(*operations(1, numbers), *operations(2, numbers, wrong_at=wrong_at))
    assert places(watcher.step(both)) == [("theorem2", wrong_at, 2, 1)]


def test_one_that_is_behind_is_compared_with_many_rows_of_the_others() -> None:
    """It is no laggard yet when the others' next rows come together with its own."""
    watcher = Watcher()
    seen, next_seen = 3 * WINDOW, 6 * WINDOW
    first = rows(*operations(1, range(1, seen)), *operations(2, range(1, seen - LAG_LIMIT)))
    assert watcher.step(first) == []
    behind = range(seen - LAG_LIMIT, next_seen)
    then = rows(*operations(1, range(seen, next_seen)), *operations(2, behind, wrong_at=behind.start))
    assert places(watcher.step(then)) == [("theorem2", behind.start, 2, 1)]
