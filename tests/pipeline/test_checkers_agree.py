"""The audit and the simulator's checkers are two judges of the same runs, and must agree, seed by seed.

The checkers see more than a journal has: who is alive at the end, and that all came to rest. They are asked
here what a journal can answer. More seeds: `llft campaign`, which compares both for every seed that it runs.
"""

from __future__ import annotations

import pytest

from llft.pipeline.audit.findings import VIOLATION
from llft.simulator.from_journals import Journal, judge
from tests.pipeline.faults import FAULTS, Fault
from tests.pipeline.history import clean
from tests.pipeline.simulated import RUNS
from tests.pipeline.worlds import SIMULATED, Audited

ONLY_THE_AUDITS = {"watermark", "gap"}
"""Properties that the simulator has no checker for."""


@pytest.mark.parametrize("number", range(len(RUNS)), ids=[f"{run[1] or run[0]}-{run[2]}" for run in RUNS])
def test_audit_and_checkers_agree(number: int, audited: Audited) -> None:
    found = {
        one["condition"]
        for one in audited.findings
        if one["world"] == SIMULATED + number and one["severity"] == VIOLATION
    }
    assert found - ONLY_THE_AUDITS == audited.checkers[number]


NOT_LOOKED_AT = {
    "out of order",  # the checkers put records in the order of their times
    "view of others",  # they do not ask whether who passed a view was a member of it,
    "other members",  # and compare memberships only of those who are alive at the end
    "gap",  # theirs is a journal that tells everything,
    "replies",  # and what clients saw is not in it
    "wrong reply",
}
JUDGED = [fault for fault in FAULTS if fault.damage is None and fault.name not in NOT_LOOKED_AT]
LOSSES_AND_WARNINGS = {"", "pruned_operations", "unheard_operations", "coverage"}


@pytest.mark.parametrize("fault", JUDGED, ids=[fault.name for fault in JUDGED])
def test_they_agree_about_planted_journals(fault: Fault) -> None:
    """Whoever has nothing but these finds in them what the audit must (`test_audit`)."""
    journals = clean()
    fault.plant(journals)
    every = [Journal(name, records) for name, records in journals.items() if records]
    found = {one.property for one in judge(sorted(every, key=lambda one: one.first.time_ns))}
    assert found == {fault.condition} - LOSSES_AND_WARNINGS - {"watermark"}


def test_some_runs_were_bad(audited: Audited) -> None:
    assert sum(map(bool, audited.checkers)) >= 4
    assert not any(one for one, run in zip(audited.checkers, RUNS, strict=True) if run[1] is None)
