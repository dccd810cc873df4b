"""Planted faults: each journal raises exactly its finding, at its place; clean ones raise none.

All are audited in one go, each in a world of its own (`worlds`).
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from tests.pipeline.faults import FAULTS, Fault
from tests.pipeline.history import clean, write
from tests.pipeline.worlds import PLANTED, Audited

Found = dict[int, list[Row]]


@pytest.fixture(scope="module")
def found(audited: Audited) -> Found:
    """The findings by world, which is the index of the fault."""
    by_world: Found = defaultdict(list)
    for finding in audited.findings:
        by_world[finding["world"] - PLANTED].append(finding)
    return by_world


@pytest.mark.parametrize(("world", "fault"), list(enumerate(FAULTS)), ids=[fault.name for fault in FAULTS])
def test_a_fault_raises_exactly_its_finding(world: int, fault: Fault, found: Found) -> None:
    mine = found[world]
    text = "\n".join(finding["explanation"] for finding in mine)
    expected = {fault.condition, *fault.beside} if fault.condition else set()
    assert {finding["condition"] for finding in mine} == expected, text
    if not fault.condition:
        return
    assert fault.count < 0 or len(mine) == fault.count, text
    assert any(_is_at(finding, fault.place) for finding in mine), (fault.place, mine)


def _is_at(finding: Row, place: dict[str, Any]) -> bool:
    return all(finding[name] == value for name, value in place.items())


def test_every_finding_explains_itself(found: Found) -> None:
    for finding in (one for many in found.values() for one in many):
        assert finding["explanation"].endswith((".", ")")), finding
        assert finding["severity"] in ("violation", "warning", "loss")


def test_every_check_has_a_fault() -> None:
    conditions = {fault.condition for fault in FAULTS}
    theorems = {f"theorem{number}" for number in range(1, 5)}
    others = {"virtual_synchrony", "exactly_once", "digests", "clock", "watermark", "membership", "gap"}
    losses = {"pruned_operations", "unheard_operations"}
    assert theorems | others | losses | {"coverage", "history"} <= conditions


def test_a_damaged_directory_is_one(tmp_path: Path) -> None:
    """The faults' own tools do what they say."""
    for fault in FAULTS:
        if fault.damage is not None:
            write(clean(), tmp_path / fault.name)
            before = sorted(
                (p.name, p.stat().st_size, p.read_bytes()) for p in (tmp_path / fault.name).rglob("*.llj")
            )
            fault.damage(tmp_path / fault.name)
            after = sorted(
                (p.name, p.stat().st_size, p.read_bytes()) for p in (tmp_path / fault.name).rglob("*.llj")
            )
            assert before != after
