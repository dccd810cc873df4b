"""A program's past: at rest all members of a group have the same birth log, from whomever they got it."""

from __future__ import annotations

from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "past"


def check(survey: Survey) -> list[Violation]:
    if not survey.evidence.quiesced:
        return []
    return [violation for group in survey.groups.values() for violation in _one_log(group)]


def _one_log(group: Group) -> list[Violation]:
    primary = group.primary
    if primary is None or primary.log is None:
        return []
    return [
        Violation(
            PROPERTY,
            f"Replica {one.birth_id} of group {group.group_id} has a log of (length, digest) {one.log}, "
            f"the primary {primary.birth_id} of {primary.log}.",
        )
        for one in group.living
        if one.log != primary.log
    ]
