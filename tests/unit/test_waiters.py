"""Deadlines that know the least of them, and the notes of what was touched."""

from __future__ import annotations

import random

from llft.core.determinizer.deadlines import Deadlines
from llft.core.messaging.reflection import HeldOrder
from llft.core.messaging.touched import Touched
from llft.instant import NEVER

GROUP = 7


def test_the_earliest_deadline_is_the_least_whatever_was_set_and_removed() -> None:
    rng = random.Random(1)
    deadlines = Deadlines()
    for _ in range(5000):
        thread = rng.randrange(40)
        if rng.random() < 0.6:
            deadlines[thread] = NEVER if rng.random() < 0.2 else rng.randrange(1000)
        elif thread in deadlines:
            del deadlines[thread]
        assert deadlines.earliest() == min(deadlines.values(), default=NEVER)


def test_deadlines_that_have_passed_stay_until_they_are_removed() -> None:
    deadlines = Deadlines()
    for thread, at_ns in enumerate([30, 10, 20, NEVER, 40]):
        deadlines[thread] = at_ns
    assert sorted(deadlines.passed(30)) == [0, 1, 2]
    assert sorted(deadlines.passed(30)) == [0, 1, 2]
    del deadlines[1]
    assert sorted(deadlines.passed(30)) == [0, 2]
    assert deadlines.passed(9) == []


def test_deadlines_set_again_and_again_take_no_more_room() -> None:
    deadlines = Deadlines()
    for at_ns in range(10_000):
        deadlines[1] = at_ns
    assert deadlines.passed(NEVER - 1) == [1]
    assert len(deadlines.heap) < 100


def test_only_a_primary_notes_what_is_touched_and_each_once() -> None:
    touched = Touched()
    touched.note(1)
    assert touched.drain({}) == []
    touched.active = True
    for fd in (3, 1, 3):
        touched.note(fd)
    assert touched.drain({}) == [3, 1]
    assert touched.drain({}) == []
    touched.note(1)
    touched.note_everything()
    assert touched.drain({}) is None
    assert touched.drain({}) == []


def test_who_is_held_back_is_touched_by_another_commit_only() -> None:
    held = {GROUP: HeldOrder()}
    touched = Touched()
    touched.active = True
    touched.await_commit(GROUP, 0, 5)
    assert touched.drain(held) == []
    held[GROUP].committed = 10
    touched.await_commit(GROUP, 10, 6)
    assert touched.drain(held) == [5]
    held[GROUP].committed = 0  # a new view of the remote group
    assert touched.drain(held) == [6]
    assert touched.drain(held) == []
