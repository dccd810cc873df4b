"""Theorem 2: one sequence of operations. Whoever performed the operation with a number of the
surviving branch performed the same one."""

from __future__ import annotations

from llft.journal.record import Operated
from llft.simulator.checkers.life import Life
from llft.simulator.checkers.survey import Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "theorem2"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    for group in survey.groups.values():
        sequence: dict[int, tuple[str, Life]] = {}
        for life in group.lives:
            found += _compare(life, sequence)
    return found


def _compare(life: Life, sequence: dict[int, tuple[str, Life]]) -> list[Violation]:
    """Reports the first difference only: what follows a difference differs too."""
    limit = life.limit
    for record in life.milestones:
        if type(record) is not Operated:
            continue
        number = record.order_seq_num
        if number >= limit:
            continue
        known = sequence.setdefault(number, (record.entry, life))
        if known[0] != record.entry:
            return [
                Violation(
                    PROPERTY,
                    f"Operation {number} of group {life.group_id} is {known[0]!r} at replica "
                    f"{known[1].birth_id} and {record.entry!r} at replica {life.birth_id} "
                    f"(view {record.stamp.view}).",
                )
            ]
    return []
