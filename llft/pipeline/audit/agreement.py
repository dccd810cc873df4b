"""The central check: all replicas of a group performed, sent and read the same under the same order number.

Fingerprint, then drill. A life's rows are summed up by 4096 order numbers: how many, and two sums of their
hashes, an exclusive or (blind to a row that comes three times) and an addition (not blind to it).
Fingerprints are small, and those of two runs of the audit can be added up. Where the lives of a group agree
in all three nothing more is looked at; where they do not, because one joined, ended or was pruned in
between, or because they really differ, the rows themselves are compared.

It finds Theorem 2 (operations), output digests (D-09) and clock readings (D-18), each by its first
divergence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import VIEW_NUMBERS, as_findings, by_other, connection_text, view_numbers
from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.audit.streams import begin_offsets, surviving_sent

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

BUCKET_BITS = 12
CONDITIONS = {"Operated": "theorem2", "Sent": "digests", "ClockRead": "clock"}
HISTORY = ("world", "group_id", "epoch", "kind")
OWNER = ("world", "group_id", "kind", "process", "life", "bucket")
VERSION = (
    *("under_another", "wall_ns", "replica", "content", *VIEW_NUMBERS, "order_seq_num", "entry", "size"),
    *("digest", "timestamp", "clock_id", "value_ns"),
)
"""What a life has at a place; sorted, the primary's word comes first, else the earliest."""
MOST_SPANS = 200
"""Suspected groups and kinds that are named in a filter. More are found by a join alone, which files cannot
be asked with."""


def bucket() -> Column:
    return F.shiftright("order_seq_num", BUCKET_BITS).alias("bucket")


def fingerprints(records: DataFrame) -> DataFrame:
    """One row for each life, kind and 4096 order numbers."""
    print_of = F.xxhash64("order_seq_num", "content")
    return (
        records.filter(F.col("kind").isin(*CONDITIONS))
        .groupBy(*OWNER[:-1], bucket())
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.bit_xor(print_of).alias("xor"),
            # Shifted, because an addition that overflows is an error; 2^19 rows are room enough for 4096.
            F.sum(F.shiftrightunsigned(print_of, 20)).alias("total"),
            F.max("order_seq_num").alias("last_number"),
            F.min("wall_ns").alias("first_wall_ns"),
            F.max("wall_ns").alias("last_wall_ns"),
        )
    )


def merged(prints: DataFrame) -> DataFrame:
    """Those of several runs, added up."""
    return prints.groupBy(*OWNER).agg(
        F.sum("rows").alias("rows"),
        F.bit_xor("xor").alias("xor"),
        F.sum("total").alias("total"),
        F.max("last_number").alias("last_number"),
        F.min("first_wall_ns").alias("first_wall_ns"),
        F.max("last_wall_ns").alias("last_wall_ns"),
    )


def suspects(prints: DataFrame, lives: DataFrame) -> DataFrame:
    """The buckets in which lives differ, or one has rows that are pruned beside others that are not."""
    last_bucket = F.shiftright("limit", BUCKET_BITS)
    whose = lives.select("process", "life", "epoch", last_bucket.alias("last_bucket"))
    differs = [F.min(name) != F.max(name) for name in ("rows", "xor", "total")]
    straddles = F.max((F.col("bucket") == F.col("last_bucket")).cast("int")) == 1
    return (
        prints.join(F.broadcast(whose), ["process", "life"], "inner")
        .filter(F.col("bucket") <= F.col("last_bucket"))
        .groupBy(*HISTORY, "bucket")
        .agg(
            F.count(F.lit(1)).alias("lives"), (differs[0] | differs[1] | differs[2] | straddles).alias("bad")
        )
        .filter("bad AND lives > 1")
        .select(*HISTORY, "bucket")
    )


def divergences(records: DataFrame, suspected: DataFrame, lives: DataFrame) -> DataFrame:
    """Findings: the first divergence of each history and kind, in the buckets that are suspected."""
    spans = _spans(suspected)
    near = records.filter(_within(spans))
    differing = (
        near.transform(_rows_of, suspected, lives)
        .groupBy(*HISTORY, "key_connection", "key_number")
        .agg(
            F.min("content").alias("low"),
            F.max("content").alias("high"),
            F.min("order_seq_num").alias("at"),
            F.sort_array(F.collect_list(F.struct(*VERSION))).alias("all"),
        )
        .filter("low != high")
    )
    first = differing.groupBy(*HISTORY).agg(
        F.min_by(F.struct("key_connection", "key_number", "all"), F.col("at")).alias("one")
    )
    found = F.filter("all", lambda version: version["content"] != F.col("all")[0]["content"])[0]
    pairs = (
        first.select(*HISTORY, "one.*")
        .withColumn("found", found)
        .select(*HISTORY, "key_connection", "key_number", F.col("all")[0].alias("expected"), "found")
    )
    if spans and all(span["kind"] != "Sent" for span in spans):
        placed = pairs.withColumn("begin_offset", F.lit(None).cast("long"))
    else:
        placed = begin_offsets(pairs, surviving_sent(records.filter(_among(spans)), lives))
    return placed.transform(_as_findings)


def _spans(suspected: DataFrame) -> list[Row]:
    """Of every suspected group and kind the first and the last bucket; none if they are too many."""
    first, last = F.min("bucket").alias("first"), F.max("bucket").alias("last")
    found = suspected.groupBy("group_id", "kind").agg(first, last).limit(MOST_SPANS + 1).collect()
    return found if len(found) <= MOST_SPANS else []


def _among(spans: Sequence[Row]) -> Column:
    return F.col("group_id").isin(*sorted({span["group_id"] for span in spans})) if spans else F.lit(True)


def _within(spans: Sequence[Row]) -> Column:
    """The order numbers of these buckets: parts of files that have none of them are passed over."""
    near = [
        (F.col("kind") == span["kind"])
        & (F.col("group_id") == span["group_id"])
        & (F.col("order_seq_num") >= span["first"] << BUCKET_BITS)
        & (F.col("order_seq_num") < span["last"] + 1 << BUCKET_BITS)
        for span in spans
    ]
    return reduce(lambda one, other: one | other, near) if near else F.col("kind").isin(*CONDITIONS)


def _rows_of(records: DataFrame, buckets: DataFrame, lives: DataFrame) -> DataFrame:
    """Rows of suspect buckets that are of the surviving branch. A message is told by connection and position,
    all else by its order number."""
    whose = lives.select("process", "life", "epoch", "limit", "replica")
    is_sent = F.col("kind") == "Sent"
    key_connection = F.when(is_sent, F.col("connection")).alias("key_connection")
    key_number = F.when(is_sent, F.col("position")).otherwise(F.col("order_seq_num")).alias("key_number")
    under_another = by_other().alias("under_another")
    known = [name for name in VERSION if name not in (*VIEW_NUMBERS, "replica", "under_another")]
    columns: list[Column | str] = ["world", "group_id", "kind", "process", "life", bucket()]
    columns += [key_connection, key_number, *known, under_another, *view_numbers()]
    return (
        records.select(*columns)
        .join(F.broadcast(whose), ["process", "life"], "inner")
        .join(F.broadcast(buckets), [*HISTORY, "bucket"], "left_semi")
        .filter(F.col("order_seq_num") < F.col("limit"))
    )


def _as_findings(placed: DataFrame) -> DataFrame:
    kind, number = F.col("kind"), F.col("expected.order_seq_num")
    values = {
        "condition": F.when(kind == "Operated", "theorem2")
        .when(kind == "Sent", "digests")
        .otherwise("clock"),
        "severity": F.lit(VIOLATION),
        "view": F.format_string("v%d/p%d", *(f"found.{name}" for name in VIEW_NUMBERS)),
        "order_seq_num": number,
        "replica": F.col("found.replica"),
        "other_replica": F.col("expected.replica"),
        "connection": connection_text(F.col("key_connection")),
        "end_offset": F.col("begin_offset") + F.greatest("expected.size", "found.size"),
        "expected": _value("expected"),
        "found": _value("found"),
        "wall_ns": F.col("found.wall_ns"),
    }
    explanation = F.format_string(
        "%s %d of group %d is %s at replica %s and %s at replica %s.",
        F.when(kind == "Operated", "Operation")
        .when(kind == "Sent", "The message sent at order number")
        .otherwise("The clock reading at order number"),
        number,
        "group_id",
        values["expected"],
        values["other_replica"],
        values["found"],
        values["replica"],
    )
    return placed.transform(as_findings, values | {"explanation": explanation})


def _value(which: str) -> Column:
    """What a replica has there, as text."""
    sent = F.format_string(
        "size %d, digest 0x%x, timestamp %d, order number %d",
        *(f"{which}.{name}" for name in ("size", "digest", "timestamp", "order_seq_num")),
    )
    clock = F.format_string("clock %d at %d ns", f"{which}.clock_id", f"{which}.value_ns")
    kind = F.col("kind")
    return F.when(kind == "Operated", F.col(f"{which}.entry")).when(kind == "Sent", sent).otherwise(clock)
