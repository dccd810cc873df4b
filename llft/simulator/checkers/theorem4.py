"""Theorem 4, for states: a state that a replica adopts is one that a member took at the same point
of the one sequence of operations; and a replica's states only advance.

A process that was killed may have kept its last records to itself (`from_journals`). So of a state that was
taken beyond the end of a primary's journal nobody can tell; in a simulation every journal is whole."""

from __future__ import annotations

from llft.identifiers import BirthId
from llft.simulator.checkers.life import Life
from llft.simulator.checkers.survey import Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "theorem4"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    live = bool(survey.evidence.journals_end_ns)
    for group in survey.groups.values():
        taken: dict[int, list[int]] = {}
        for life in group.lives:
            for record in life.taken:
                taken.setdefault(record.order_seq_num, []).append(record.digest)
        reached = {life.birth_id: life.performed_count for life in group.lives} if live else None
        for life in group.lives:
            found += _adopted(life, taken, reached)
    return found


def _adopted(life: Life, taken: dict[int, list[int]], reached: dict[BirthId, int] | None) -> list[Violation]:
    """`reached`: up to which operation the journals tell, by birth id; None: they tell everything."""
    newest = -1
    for record in life.applied:
        digests = taken.get(record.order_seq_num, [])
        told = reached is None or reached.get(record.stamp.view.birth_id, 0) >= record.order_seq_num
        if record.digest not in digests and (digests or told):
            expected = " or ".join(f"{digest:#x}" for digest in digests) or "none"
            text = (
                f"adopted the state {record.digest:#x} of operation {record.order_seq_num} in view "
                f"{record.stamp.view}; the state taken there is {expected}."
            )
        elif record.order_seq_num < newest:
            text = f"went back from the state of operation {newest} to that of {record.order_seq_num}."
        else:
            newest = record.order_seq_num
            continue
        return [Violation(PROPERTY, f"{life.name.capitalize()} {text}")]
    return []
