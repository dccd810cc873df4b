"""Progress (Theorems 5 and 6, as far as a finite run can show): at the end every client program is
finished, and the live members of each group are in one view, under one primary, caught up.

Outside the model a group may have died out; nothing is asked of one that has nobody left.
"""

from __future__ import annotations

from llft.simulator.checkers.survey import BACKUP, PRIMARY, Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "progress"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    for group in survey.groups.values():
        if group.living or survey.evidence.profile.in_model:
            found += _settled(group)
            found += _finished(group)
    return found


def _settled(group: Group) -> list[Violation]:
    primary = group.primary
    if primary is None:
        roles = ", ".join(f"{one.birth_id} {one.role}" for one in group.living) or "nobody left"
        return [Violation(PROPERTY, f"Group {group.group_id} has no primary at the end: {roles}.")]
    return [
        Violation(
            PROPERTY,
            f"Replica {one.birth_id} of group {group.group_id} is {one.role} in view {one.view} at the end; "
            f"the primary {primary.birth_id} is in view {primary.view}.",
        )
        for one in group.living
        if one.role not in (PRIMARY, BACKUP) or one.view != primary.view
    ]


def _finished(group: Group) -> list[Violation]:
    primary = group.primary
    if primary is None or primary.program.finished:
        return []
    program = primary.program
    surrendered = getattr(program, "surrender_count", 0)
    return [
        Violation(
            PROPERTY,
            f"The program of group {group.group_id} is not finished: {len(program.history)} requests have an "
            f"outcome, {surrendered} workers gave up connecting.",
        )
    ]
