"""The audit and the simulator's checkers are two judges of the same runs, and must agree, seed by seed.

The checkers see more than a journal has: who is alive at the end, and that all came to rest. They are asked
here what a journal can answer. More seeds: `llft campaign`, which compares both for every seed that it runs.
"""

from __future__ import annotations

import pytest

from llft.pipeline.audit.findings import VIOLATION
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


def test_some_runs_were_bad(audited: Audited) -> None:
    assert sum(map(bool, audited.checkers)) >= 4
    assert not any(one for one, run in zip(audited.checkers, RUNS, strict=True) if run[1] is None)
