"""Theorem 1: one sequence of consecutive primary views, each with a unique number and a single primary.

Checked on the surviving branch: nobody but the process that a view is named after acts as its
primary, view numbers are consecutive, and at the end one process is the primary. A number may be
missing if somebody adopted that view and it died before its order entry was passed.
"""

from __future__ import annotations

from itertools import pairwise

from llft.simulator.checkers.survey import PRIMARY, Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "theorem1"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    for group in survey.groups.values():
        found += _single_primaries(group)
        found += _consecutive_numbers(group)
        found += _one_primary_at_the_end(group)
    return found


def _single_primaries(group: Group) -> list[Violation]:
    return [
        Violation(
            PROPERTY,
            f"{life.name.capitalize()} became primary in view {role.stamp.view}, "
            f"whose primary is {role.stamp.view.birth_id}.",
        )
        for life in group.lives
        for role in life.roles
        if role.role == PRIMARY and role.stamp.view.birth_id != life.birth_id
    ]


def _consecutive_numbers(group: Group) -> list[Violation]:
    adopted = {
        record.stamp.view.primary_view_num
        for life in group.lives
        for records in (life.roles, life.memberships)
        for record in records
    }
    found = []
    for earlier, later in pairwise(group.chain):
        missing = range(earlier.primary_view_num + 1, later.primary_view_num)
        if any(number not in adopted for number in missing):
            found.append(
                Violation(
                    PROPERTY,
                    f"Group {group.group_id} went from view {earlier} to view {later} "
                    f"(order number {group.starts.get(later)}), and nobody knows a view in between.",
                )
            )
    return found


def _one_primary_at_the_end(group: Group) -> list[Violation]:
    primaries = [process for process in group.living if process.role == PRIMARY]
    if len(primaries) < 2:
        return []
    names = " and ".join(f"{process.birth_id} in {process.view}" for process in primaries)
    return [Violation(PROPERTY, f"Group {group.group_id} ends with several primaries: {names}.")]
