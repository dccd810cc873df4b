"""Membership: at rest all live members of a group agree on it and on the ranks, and it names
exactly them. The list is in order of precedence, so agreeing on the list is agreeing on ranks."""

from __future__ import annotations

from llft.identifiers import Member
from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "membership"


def check(survey: Survey) -> list[Violation]:
    if not survey.evidence.quiesced:
        return []
    return [violation for group in survey.groups.values() for violation in _agreed(group)]


def _agreed(group: Group) -> list[Violation]:
    primary = group.primary
    if primary is None:
        return []
    found = [
        Violation(
            PROPERTY,
            f"Replica {one.birth_id} of group {group.group_id} has the membership {_names(one.membership)}, "
            f"the primary {primary.birth_id} {_names(primary.membership)} (view {primary.view}).",
        )
        for one in group.living
        if one.membership != primary.membership
    ]
    members = sorted(member.birth_id for member in primary.membership)
    living = sorted(one.birth_id for one in group.living)
    if members != living:
        found.append(
            Violation(
                PROPERTY,
                f"The membership of group {group.group_id} in view {primary.view} is "
                f"{_names(primary.membership)}, but alive are {', '.join(map(str, living))}.",
            )
        )
    return found


def _names(membership: tuple[Member, ...]) -> str:
    return ", ".join(f"{member.birth_id}/p{member.precedence}" for member in membership) or "nobody"
