"""The watch as a stream: an alarm with its exact place, and neither repeated nor missed across restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from llft.journal.frame import encode_record
from llft.journal.record import Gap, Operated
from llft.pipeline.watch.stream import alarms_of, watch
from tests.pipeline.faults import change
from tests.pipeline.history import D, clean, write


def look(spark: SparkSession, directory: Path, store: Path) -> list[dict[str, Any]]:
    """All that is there now; returns what was told."""
    told: list[dict[str, Any]] = []
    query = watch(spark, str(directory), store, told.append, once=True)
    assert query.awaitTermination(240)
    return told


def test_alarms_are_given_once_across_restarts(spark: SparkSession, tmp_path: Path) -> None:
    journals = clean()
    change(journals, "D", Operated, {"order_seq_num": 8}, entry="receive 99")
    paths = write(journals, tmp_path / "live")
    store = tmp_path / "store"
    told = look(spark, tmp_path / "live", store)
    assert [(one["condition"], one["order_seq_num"]) for one in told] == [("theorem2", 8)]
    assert str(D) in (told[0]["replica"], told[0]["other_replica"])
    with paths[0].open("ab") as file:
        last = journals["A"][-1]
        file.write(encode_record(Gap(last.stamp, 3)))
    again = look(spark, tmp_path / "live", store)
    assert [one["condition"] for one in again] == ["gap"]
    assert look(spark, tmp_path / "live", store) == []
    assert [one["condition"] for one in alarms_of(store)] == ["theorem2", "gap"]
