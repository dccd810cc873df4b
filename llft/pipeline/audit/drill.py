"""Which rows may differ from those of other replicas, and which of those really do.

A replica that joined, ended or was pruned in between makes others suspects for nothing, and in a fleet in
trouble, or a simulated one, nearly all are such. So what suspects have is compared first in short: for each
life and kind one row, with a hash of what every record is told by and its content, as bytes; few rows go
through Java and its shuffle. A hash that two names share is one more suspect, no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from llft.pipeline.audit.prints import BUCKET_BITS, Numbers, codes, mix, numbers, plain, run_starts
from llft.pipeline.scan import Pass

if TYPE_CHECKING:
    import pyarrow as pa

    from llft.pipeline.audit.outline import Outline
    from llft.pipeline.scan import Rows, Where

SHORT = ("world", "group_id", "kind", "process", "life", "order_seq_num", "content", "position", "connection")
OWNER = ("world", "group_id", "epoch", "kind")
SHORT_SCHEMA = StructType(
    [
        StructField("world", LongType()),
        StructField("group_id", LongType()),
        StructField("epoch", IntegerType()),
        StructField("kind", StringType()),
        StructField("names", BinaryType()),
        StructField("contents", BinaryType()),
    ]
)
DIFFERING_SCHEMA = StructType([StructField("world", LongType()), StructField("group_id", LongType())])

Whose = Mapping[tuple[int, int], tuple[int, int, str]]
"""Of each life of the suspected groups: its epoch, its limit, its name."""
Places = Mapping[tuple[int, int, int, str], frozenset[int]]
"""World, group, epoch and kind -> the buckets that are suspected."""


@dataclass(frozen=True, slots=True)
class Drill:
    """What is suspected, for those who read the rows."""

    whose: Whose
    places: Places

    @classmethod
    def of(cls, outline: Outline) -> Drill:
        places: dict[tuple[int, int, int, str], set[int]] = {}
        for one in outline.suspects.to_pylist():
            key = (one["world"], one["group_id"], one["epoch"], one["kind"])
            places.setdefault(key, set()).add(one["bucket"])
        groups = {key[:2] for key in places}
        whose = {
            (one["process"], one["life"]): (one["epoch"], one["limit"], one["replica"])
            for one in outline.lives.to_pylist()
            if (one["world"], one["group_id"]) in groups
        }
        return cls(whose, {key: frozenset(buckets) for key, buckets in places.items()})

    @property
    def kinds(self) -> list[str]:
        return sorted({key[3] for key in self.places})

    @property
    def groups(self) -> list[int]:
        return sorted({key[1] for key in self.places})

    @property
    def numbers(self) -> range:
        """From the first suspected order number to the last."""
        every = [bucket for buckets in self.places.values() for bucket in buckets]
        return range(min(every) << BUCKET_BITS, max(every) + 1 << BUCKET_BITS)

    @property
    def where(self) -> Where:
        return {"kind": self.kinds, "group_id": self.groups, "order_seq_num": self.numbers}

    def narrowed(self, groups: set[tuple[int, int]]) -> Drill:
        """To these, by world and group."""
        return replace(self, places={key: one for key, one in self.places.items() if key[:2] in groups})


def differing_groups(rows: Rows, drill: Drill) -> set[tuple[int, int]]:
    """World and group of those of which two lives have other contents under one name."""
    short = rows.through(SHORT_SCHEMA, Pass(partial(shorten, drill), SHORT, drill.where))
    found = short.repartition("world", "group_id").mapInArrow(compare, DIFFERING_SCHEMA).toArrow()
    return set(zip(found["world"].to_pylist(), found["group_id"].to_pylist(), strict=True))


def shorten(drill: Drill, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`SHORT_SCHEMA`: a row for each run of one life and kind, in buckets that are suspected."""
    import pyarrow as pa

    for batch in suspected(drill, batches):
        if not batch.num_rows:
            continue
        process, life = (numbers(batch.column(name)) for name in ("process", "life"))
        starts = run_starts(process, life, codes(batch.column("kind")))
        names, contents = _names(batch), numbers(batch.column("content"))
        spans = list(zip(starts.tolist(), [*starts[1:].tolist(), batch.num_rows], strict=True))
        at = pa.array(starts)
        columns = {name: batch.column(name).take(at) for name in ("world", "group_id", "kind")}
        whose = [drill.whose[int(process[begin]), int(life[begin])] for begin in starts]
        columns["epoch"] = pa.array([epoch for epoch, _, _ in whose], pa.int32())
        for name, values in (("names", names), ("contents", contents)):
            columns[name] = pa.array([values[begin:end].tobytes() for begin, end in spans], pa.binary())
        yield pa.RecordBatch.from_pydict(columns)


def _names(batch: pa.RecordBatch) -> Numbers:
    """A hash of what a row is told by: a message by connection and position, all else by its order number."""
    from pyarrow import compute

    is_sent: Numbers = compute.equal(batch.column("kind"), "Sent").to_numpy(zero_copy_only=False)
    name = np.where(is_sent, numbers(batch.column("position")), numbers(batch.column("order_seq_num")))
    hashes = np.zeros(len(name), np.uint64)
    for one in (*(np.where(is_sent, numbers(end), 0) for end in batch.column("connection").flatten()), name):
        known, hashes = hashes, np.empty(len(name), np.uint64)
        mix(one, known, hashes)
    return hashes


def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a group are here."""
    import pyarrow as pa

    rows = [row for batch in batches for row in batch.to_pylist()]
    if not rows:
        return
    owners: dict[tuple[object, ...], int] = {}
    owner = [owners.setdefault(tuple(row[name] for name in OWNER), len(owners)) for row in rows]
    names, contents = (
        np.frombuffer(b"".join(row[name] for row in rows), np.int64) for name in ("names", "contents")
    )
    whose = np.repeat(owner, [len(row["names"]) // names.itemsize for row in rows])
    order = np.lexsort((contents, names, whose))
    starts = run_starts(whose[order], names[order])
    first, last = order[starts], order[np.append(starts[1:], len(order)) - 1]
    bad = set(whose[first[contents[first] != contents[last]]].tolist())
    groups = sorted({key[:2] for key, number in owners.items() if number in bad})
    yield pa.RecordBatch.from_pydict(
        {name: pa.array([group[at] for group in groups], pa.int64()) for at, name in enumerate(OWNER[:2])}
    )


def suspected(drill: Drill, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of suspected buckets that are of the surviving branch."""
    import pyarrow as pa

    for batch in batches:
        if batch.num_rows:
            chosen = batch.filter(pa.array(_is_suspected(drill, batch)))
            yield pa.RecordBatch.from_arrays(
                [plain(one) for one in chosen.columns], names=chosen.schema.names
            )


def _is_suspected(drill: Drill, batch: pa.RecordBatch) -> Numbers:
    """Life by life: all rows of a run have one answer but for their numbers."""
    number = numbers(batch.column("order_seq_num"))
    owners = [numbers(batch.column(name)) for name in ("world", "group_id", "process", "life")]
    kinds = batch.column("kind")
    starts = run_starts(*owners, codes(kinds))
    wanted = np.zeros(len(number), dtype=bool)
    for begin, end in zip(starts, [*starts[1:], len(number)], strict=True):
        world, group_id, process, life = (int(owner[begin]) for owner in owners)
        epoch, limit, _ = drill.whose.get((process, life), (0, 0, ""))
        buckets = drill.places.get((world, group_id, epoch, kinds[begin].as_py()), frozenset())
        if buckets:
            run = number[begin:end]
            wanted[begin:end] = _is_in(run >> BUCKET_BITS, buckets) & (run < limit)
    return wanted


def _is_in(bucket: Numbers, buckets: frozenset[int]) -> Numbers | bool:
    """A short run is in one bucket, mostly."""
    low, high = int(bucket.min()), int(bucket.max())
    return low in buckets if low == high else np.isin(bucket, list(buckets))
