"""The judges of a simulation: the paper's theorems, and what else must hold, checked on its evidence.

Each module checks one property and has `check(survey) -> list[Violation]`; the survey puts the evidence
in order once for all of them. What the fault model allows to be lost is counted by `losses`.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from llft.simulator.checkers import (
    buffers,
    clock,
    digests,
    exactly_once,
    membership,
    past,
    progress,
    replies,
    resets,
    restarts,
    theorem1,
    theorem2,
    theorem3,
    theorem4,
    virtual_synchrony,
)
from llft.simulator.checkers.losses import count_losses
from llft.simulator.checkers.survey import Survey, survey
from llft.simulator.checkers.violation import Violation
from llft.simulator.evidence import Evidence

__all__ = [
    "CHECKERS",
    "Survey",
    "Violation",
    "check_all",
    "check_named",
    "check_surveyed",
    "count_losses",
    "losses",
    "survey",
]

CHECKERS: dict[str, Callable[[Survey], list[Violation]]] = {
    module.PROPERTY: module.check
    for module in (
        theorem1,
        theorem2,
        theorem3,
        theorem4,
        virtual_synchrony,
        exactly_once,
        replies,
        clock,
        digests,
        membership,
        progress,
        buffers,
        resets,
        past,
        restarts,
    )
}


def check_all(evidence: Evidence) -> list[Violation]:
    """All violations, the theorems' first: the first one is most likely the cause of the rest."""
    return check_named(evidence, leave_out=())


def check_named(evidence: Evidence, *, leave_out: Container[str]) -> list[Violation]:
    """The same, without the checkers of these names."""
    return check_surveyed(survey(evidence), leave_out=leave_out)


def check_surveyed(surveyed: Survey, *, leave_out: Container[str] = ()) -> list[Violation]:
    """For those who need the survey too: it is half of the work."""
    checkers = [check for name, check in CHECKERS.items() if name not in leave_out]
    return [violation for check in checkers for violation in check(surveyed)]


def losses(evidence: Evidence) -> dict[str, int]:
    return count_losses(survey(evidence))
