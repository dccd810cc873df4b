from __future__ import annotations

import random

import pytest

from llft.core.determinizer.clock import GroupClock
from llft.errors import InvariantError


def test_the_first_primary_reads_its_own_clock() -> None:
    clock = GroupClock()
    assert clock.offset(0) == 0
    assert [clock.read(0, local) for local in (5, 7, 7, 100)] == [5, 7, 7, 100]


def test_a_new_primary_whose_clock_is_behind_does_not_roll_back() -> None:
    clock = GroupClock()
    clock.observe(0, 1_000_000, 400)
    assert clock.read(0, 500) == 1_000_100


def test_a_new_primary_whose_clock_is_ahead_does_not_roll_forward() -> None:
    clock = GroupClock()
    clock.observe(0, 400, 1_000_000)
    assert clock.read(0, 1_000_100) == 500


def test_a_local_clock_that_is_set_back_neither_rolls_back_nor_freezes() -> None:
    clock = GroupClock()
    assert clock.read(0, 1000) == 1000
    assert clock.read(0, 10) == 1000
    assert clock.read(0, 30) == 1020


def test_clocks_are_independent() -> None:
    clock = GroupClock()
    clock.observe(0, 1000, 0)
    assert clock.read(1, 5) == 5
    assert clock.read(0, 5) == 1005


def test_a_backup_refuses_a_clock_that_rolled_back() -> None:
    clock = GroupClock()
    clock.observe(0, 1000, 0)
    with pytest.raises(InvariantError):
        clock.observe(0, 999, 5)


def test_a_joiner_goes_on_where_the_group_clock_was() -> None:
    primary, joiner = GroupClock(), GroupClock()
    primary.observe(0, 5_000, 1_000)
    assert primary.read(0, 1_500) == 5_500
    joiner.restore(primary.snapshot(lambda _: 2_000), lambda _: 70_000)
    assert joiner.read(0, 70_010) == 6_010


@pytest.mark.parametrize("seed", range(20))
def test_monotone_over_many_primaries_with_wild_clocks(seed: int) -> None:
    rng = random.Random(seed)
    skews = [rng.randrange(-(10**15), 10**15) for _ in range(4)]
    clocks = [GroupClock() for _ in skews]
    now_ns = last_ns = first_ns = 0
    for turn in range(200):
        now_ns += rng.randrange(10_000)
        primary = turn // 20 % len(skews)
        value_ns = clocks[primary].read(0, now_ns + skews[primary])
        for index, clock in enumerate(clocks):
            if index != primary:
                clock.observe(0, value_ns, now_ns + skews[index])
        if turn:
            assert value_ns - first_ns == now_ns - last_ns  # as much as real time passed
        first_ns, last_ns = value_ns, now_ns
