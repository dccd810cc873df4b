"""Virtual synchrony: replicas that pass from one view to the next pass it at the same order number,
with every operation before it performed (paper, recovering from the membership change)."""

from __future__ import annotations

from llft.journal.record import Operated, StateApplied, ViewInstalled
from llft.simulator.checkers.life import Life
from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "virtual_synchrony"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    for group in survey.groups.values():
        for life in group.lives:
            found += _same_point(group, life)
            if not group.semi_passive:
                found += _all_performed(life)
    return found


def _same_point(group: Group, life: Life) -> list[Violation]:
    return [
        Violation(
            PROPERTY,
            f"{life.name.capitalize()} installed view {record.stamp.view} at order number "
            f"{record.order_seq_num}, its primary at {group.starts[record.stamp.view]}.",
        )
        for record in life.installed
        if record.order_seq_num != group.starts[record.stamp.view]
    ]


def _all_performed(life: Life) -> list[Violation]:
    """A semi-passive backup performs nothing; Theorem 4 speaks for it."""
    performed = 0
    for record in life.milestones:
        if type(record) is Operated or type(record) is StateApplied:
            performed = record.order_seq_num
        elif type(record) is ViewInstalled:
            if performed not in (record.order_seq_num - 1, record.order_seq_num):
                return [
                    Violation(
                        PROPERTY,
                        f"{life.name.capitalize()} passed into view {record.stamp.view} at order number "
                        f"{record.order_seq_num} when its last operation was {performed}.",
                    )
                ]
            performed = record.order_seq_num
    return []
