"""What `llft audit` does: journals in; findings as a table, a page and a verdict out."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.audit.findings import FINDING_SCHEMA, VIOLATION
from llft.pipeline.audit.page import gravest_first, page
from llft.pipeline.audit.timelines import timelines
from llft.pipeline.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from llft.pipeline.audit.checks import Case

COLLECTED_FINDINGS = 10_000
"""More are in the table; a person reads the first."""


@dataclass(frozen=True, slots=True)
class Question:
    paths: Sequence[str | Path]
    store: Path
    groups: Sequence[int] = ()
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    records: int
    quarantined: int
    groups: int
    violations: int
    findings: dict[str, int]
    seconds: float
    new_records: int = 0
    report: str = ""
    table: str = ""
    shown: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """The gravest findings."""

    def to_json(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if name != "shown"})


def audit(spark: SparkSession, question: Question) -> Verdict:
    started_s = time.monotonic()
    store = Store(question.store)
    new_count = store.take_in(spark, question.paths)
    records = of_groups(store.records(spark), question.groups)
    quarantined = store.quarantined(spark)
    table = question.store / "findings"
    files = () if question.groups else store.files()
    with judging(records, quarantined, store.prints(spark), files) as case:
        findings(case).transform(asked_for, question).write.mode("overwrite").parquet(str(table))
        found = spark.read.schema(FINDING_SCHEMA).parquet(str(table))
        return _conclude(case, found, question, started_s, new_count)


def _conclude(case: Case, found: DataFrame, question: Question, started_s: float, new_count: int) -> Verdict:
    counts = Counter(
        {(row[0], row[1]): row[2] for row in found.groupBy("condition", "severity").count().collect()}
    )
    ordered = found.orderBy(F.expr(f"severity != '{VIOLATION}'"), "world", "group_id", "order_seq_num")
    shown = sorted((row.asDict() for row in ordered.limit(COLLECTED_FINDINGS).collect()), key=gravest_first)
    drawn = timelines(case.records, case.lives, shown)
    report = question.store / "report.html"
    verdict = Verdict(
        records=case.records.count(),
        quarantined=case.quarantined.count(),
        groups=case.lives.select("world", "group_id").distinct().count(),
        violations=sum(count for (_, severity), count in counts.items() if severity == VIOLATION),
        findings={condition: count for (condition, _), count in sorted(counts.items())},
        seconds=round(time.monotonic() - started_s, 3),
        new_records=new_count,
        report=str(report),
        table=str(question.store / "findings"),
        shown=shown,
    )
    report.write_text(page(asdict(verdict), shown, drawn), encoding="utf-8")
    return verdict


def of_groups(records: DataFrame, groups: Sequence[int]) -> DataFrame:
    """Those asked for and those they are connected with, without which their streams cannot be judged."""
    if not groups:
        return records
    mine = records.filter(F.col("group_id").isin(*groups) & F.col("connection").isNotNull())
    ends = mine.select("connection").distinct().collect()
    peers = {end for row in ends for end in (row[0]["client_group_id"], row[0]["server_group_id"])}
    return records.filter(F.col("group_id").isin(*sorted(peers | set(groups))))


def asked_for(found: DataFrame, question: Question) -> DataFrame:
    """What came before is read too, for histories begin at their beginning; only findings are left out. One
    that has no time is never left out for its time."""
    if question.groups:
        found = found.filter(F.col("group_id").isin(*question.groups))
    if question.since_ns is not None:
        found = found.filter(F.coalesce(F.col("wall_ns") >= question.since_ns, F.lit(True)))
    if question.until_ns is not None:
        found = found.filter(F.coalesce(F.col("wall_ns") < question.until_ns, F.lit(True)))
    return found
