"""What the live tests left is judged by the audit too: nothing is violated in any of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.ingest import decode_plans, journal_files, split
from llft.pipeline.segments import plan
from tests.live.kept import KEPT_JOURNALS

MOST_BYTES = 16 << 20
"""Of one test: what is larger takes too long here. `llft audit` judges it as well."""


def kept() -> list[Path]:
    root = os.environ.get(KEPT_JOURNALS)
    places = sorted(Path(root).iterdir()) if root and Path(root).is_dir() else []
    return [place for place in places if sum(file.stat().st_size for file in place.iterdir()) <= MOST_BYTES]


@pytest.mark.skipif(not kept(), reason="the live tests come first, and keep their journals: make test")
def test_the_audit_finds_nothing_in_journals_of_live_tests(spark: SparkSession, tmp_path: Path) -> None:
    """Each test is a world of its own."""
    places = kept()
    plans = [one for world, place in enumerate(places) for one in plan(journal_files([place]), world)]
    rows = str(tmp_path / "rows")
    decode_plans(spark, plans).write.parquet(rows)
    got = split(spark.read.parquet(rows))
    with judging(got.records, got.quarantined) as case:
        found = findings(case).filter(f"severity = '{VIOLATION}'").collect()
    assert [(places[one["world"]].name, one["condition"], one["explanation"]) for one in found] == []
