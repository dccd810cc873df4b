"""Many worlds, one audit: what the tests of the audit judge, decoded and audited together.

An audit of a few hundred records takes as long as one of a few thousand, so every planted fault, every
generated history and every simulated run is a world of its own in one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Row, SparkSession

from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.ingest import decode_plans, journal_files, split
from llft.pipeline.segments import plan
from tests.pipeline import generated, simulated
from tests.pipeline.faults import FAULTS
from tests.pipeline.history import clean, write

PLANTED, GENERATED, SIMULATED = 0, 1000, 2000
"""The first world of each kind."""


@dataclass(frozen=True, slots=True)
class Audited:
    rows: str
    """Where all rows lie, as Parquet."""
    findings: list[Row]
    checkers: list[set[str]]
    """What the simulator's checkers say, run by run."""
    journals: dict[int, Path]
    """Of each world where its journals are, but of those that were damaged."""


def audit_all(spark: SparkSession, root: Path) -> Audited:
    places: dict[int, Path] = {}
    checkers = _make(root, places)
    plans = [one for world, place in places.items() for one in plan(journal_files([place]), world)]
    rows = str(root / "rows")
    decode_plans(spark, plans).write.parquet(rows)
    got = split(spark.read.parquet(rows))
    with judging(got.records, got.quarantined) as case:
        return Audited(rows, findings(case).collect(), checkers, _sound(places))


def _sound(places: dict[int, Path]) -> dict[int, Path]:
    damaged = {number for number, fault in enumerate(FAULTS, PLANTED) if fault.damage is not None}
    return {world: place for world, place in places.items() if world not in damaged}


def _make(root: Path, places: dict[int, Path]) -> list[set[str]]:
    for number, fault in enumerate(FAULTS, PLANTED):
        journals = clean()
        fault.plant(journals)
        places[number] = root / str(number)
        write(journals, places[number])
        if fault.damage is not None:
            fault.damage(places[number])
    for number in range(generated.WORLDS):
        places[GENERATED + number] = root / str(GENERATED + number)
        write(generated.planted(number), places[GENERATED + number])
    checkers = []
    for number, run in enumerate(simulated.RUNS, SIMULATED):
        places[number] = root / str(number)
        checkers.append(simulated.simulate(*run, places[number]))
    return checkers
