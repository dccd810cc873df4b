"""Theorem 3: the operations of a replica are a consecutive subsequence of the group's.

A life begins with operation 1, or after the state that the replica adopted; from there no number
is skipped and none comes twice. A semi-passive backup performs nothing until it is the primary,
and then begins after the newest state it stored. Passing a view change counts as performing its entry.
"""

from __future__ import annotations

from llft.journal.record import Operated, StateApplied
from llft.simulator.checkers.life import Life
from llft.simulator.checkers.survey import Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "theorem3"


def check(survey: Survey) -> list[Violation]:
    return [violation for _, life in survey.lives() for violation in _consecutive(life)]


def _consecutive(life: Life) -> list[Violation]:
    """Also for pruned branches: a side branch is a sequence too."""
    performed = 0
    passed = -1
    state = -1
    for record in life.milestones:
        number = record.order_seq_num
        if type(record) is StateApplied:
            state = number
        elif type(record) is not Operated:
            passed = number
            if number == performed + 1:
                performed = number
        elif number == performed + 1 or number == state + 1 or number == passed == performed:
            performed = number
        elif number == passed + 1 and passed == state + 1:
            performed = number  # the state was followed by a view change at once
        else:
            return [
                Violation(
                    PROPERTY,
                    f"{life.name.capitalize()} performed operation {number} in view {record.stamp.view} "
                    f"after operation {performed}" + (f" and a state of {state}." if state >= 0 else "."),
                )
            ]
        if type(record) is Operated:
            state = -1
    return []
