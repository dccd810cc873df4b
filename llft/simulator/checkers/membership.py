"""Membership: always in order of precedence, which gives the ranks, and the primary of the view is first,
for it excludes everybody of lower precedence; and at rest all live members agree on it, and it
names exactly them."""

from __future__ import annotations

from llft.identifiers import Member
from llft.simulator.checkers.life import Life
from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "membership"


def check(survey: Survey) -> list[Violation]:
    found = [violation for _, life in survey.lives() for violation in _in_order(life)]
    if survey.evidence.quiesced:
        found += [violation for group in survey.groups.values() for violation in _agreed(group)]
    return found


def _in_order(life: Life) -> list[Violation]:
    for record in life.memberships:
        precedences = [member.precedence for member in record.membership]
        if precedences != sorted(precedences) or precedences[:1] != [record.stamp.view.precedence]:
            text = (
                f"{life.name} adopted the membership {_names(record.membership)} in view {record.stamp.view}."
            )
            return [Violation(PROPERTY, text[0].upper() + text[1:])]
    return []


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
