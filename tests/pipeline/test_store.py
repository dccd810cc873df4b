"""The store: a second run reads only what is new, a killed run leaves nothing half done, sealed rows stay
as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from llft.cli.main import main
from llft.errors import MisuseError
from llft.journal.record import Operated, Record
from llft.pipeline import store as store_module
from llft.pipeline.audit.command import Question, asked_for, audit, of_groups
from llft.pipeline.audit.findings import FINDING_SCHEMA, Finding
from llft.pipeline.audit.prints import fingerprints, merged
from llft.pipeline.ingest import read_journals
from llft.pipeline.layout import altered
from llft.pipeline.scan import Rows
from llft.pipeline.store import MANIFEST, Store
from tests.pipeline.faults import change
from tests.pipeline.history import VIEW2, B, D, Journals, clean, write

COUNT = sum(len(records) for records in clean().values())


def cut(journals: Journals, at: float) -> Journals:
    """Only what was written up to a moment."""
    every = sorted(record.stamp.time_ns for records in journals.values() for record in records)
    moment_ns = every[int(len(every) * at)]
    return {
        name: [one for one in records if one.stamp.time_ns <= moment_ns] for name, records in journals.items()
    }


def append(journals: Journals, directory: Path, before: Journals) -> None:
    """As the replicas would have: what is there stays, what is new follows."""
    from llft.journal.frame import encode_record

    for name, records in journals.items():
        path = directory / f"{name}.llj"
        fresh: list[Record] = records[len(before[name]) :]
        if not path.exists() or not before[name]:
            path.unlink(missing_ok=True)
            write({name: records}, directory)
        else:
            with path.open("ab") as file:
                file.write(b"".join(encode_record(record) for record in fresh))


def test_a_second_run_reads_only_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    journals = clean()
    change(journals, "D", Operated, {"order_seq_num": 24}, entry="receive 99")
    early = cut(journals, 0.6)
    write({name: records for name, records in early.items() if records}, tmp_path / "live")
    question = Question([tmp_path / "live"], tmp_path / "store")
    first = audit(spark, question)
    assert (first.violations, first.new_records) == (0, sum(map(len, early.values())))
    append(journals, tmp_path / "live", early)
    second = audit(spark, question)
    assert second.records == COUNT
    assert second.new_records == COUNT - first.new_records
    assert second.findings == {"theorem2": 1}
    assert [(one["order_seq_num"], one["replica"]) for one in second.shown] == [(24, str(D))]
    assert Store(tmp_path / "store").take_in(spark, [tmp_path / "live"]) == 0
    assert "timeline" in Path(second.report).read_text(encoding="utf-8").lower()


def test_sealed_rows_lie_as_they_should(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "SEAL_ROWS", 100)
    write(clean(), tmp_path / "live")
    store = Store(tmp_path / "store")
    assert store.take_in(spark, [tmp_path / "live"]) == COUNT
    (sealed,) = (tmp_path / "store" / "sealed").iterdir()
    files = list(sealed.rglob("*.parquet"))
    assert len(files) == 1
    assert "day=" in str(files[0])
    assert "bucket=" in str(files[0])
    table = pq.read_table(files[0], columns=["rare", "kind", "place"], partitioning=None).to_pylist()
    keys = [(row["rare"], row["kind"]) for row in table]
    assert keys == sorted(keys)
    rows = store.records(spark)
    expected = set(merged(fingerprints(Rows(rows))).collect())
    assert set(merged(store.prints(spark)).collect()) == expected
    assert set(merged(fingerprints(Rows(rows, store.files()))).collect()) == expected
    marks = str(tmp_path / "store" / "marks" / sealed.name)
    assert altered(spark, rows, marks).count() == 0
    assert altered(spark, rows.filter("NOT (kind = 'Operated' AND order_seq_num = 9)"), marks).count() > 0


def test_a_killed_run_leaves_the_store_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    write(clean(), tmp_path / "live")
    rubbish = tmp_path / "store" / "tail" / "0"
    rubbish.mkdir(parents=True)
    (rubbish / "half.parquet").write_bytes(b"PAR1 and no more")
    store = Store(tmp_path / "store")
    assert store.take_in(spark, [tmp_path / "live"]) == COUNT
    assert store.records(spark).count() == COUNT


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps({"version": 99}), encoding="utf-8")
    with pytest.raises(MisuseError, match="store-of-another-version"):
        Store(tmp_path)


def test_findings_of_groups_and_times_are_chosen(spark: SparkSession) -> None:
    rows = [
        Finding("gap", "violation", 0, group_id, wall_ns=wall_ns)
        for group_id, wall_ns in ((1, 10), (1, None), (2, 20), (2, 30))
    ]
    found = spark.createDataFrame(rows, FINDING_SCHEMA)

    def chosen(**more: Any) -> list[tuple[int, int | None]]:
        kept = found.transform(asked_for, Question([], Path(), **more)).collect()
        return sorted(((row["group_id"], row["wall_ns"]) for row in kept), key=str)

    assert len(chosen()) == 4
    assert chosen(groups=[2]) == [(2, 20), (2, 30)]
    assert chosen(since_ns=20, until_ns=30) == [(1, None), (2, 20)]


def test_a_group_is_read_with_those_it_is_connected_with(spark: SparkSession, tmp_path: Path) -> None:
    write(clean(), tmp_path / "live")
    records = read_journals(spark, [tmp_path / "live"]).persist()
    assert of_groups(records, [1]).select("group_id").distinct().count() == 2
    assert of_groups(records, [7]).count() == 0
    records.unpersist()


def test_bad_usage_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path / "nowhere")]) == 2
    assert "no-such-path" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["audit", str(tmp_path / "empty")]) == 2
    assert "no-journals" in capsys.readouterr().err


def test_the_history_is_what_the_tests_say() -> None:
    assert VIEW2.birth_id == B
