"""The records of simulated worlds as the rows that journals on disk become: the same columns, the same
audit. Of the few worlds that all checks have to be made of, or whose journals are to be kept.

A batch of rows for each kind, which fills few of the columns; in it process by process, as sealed records
lie: whoever reads them meets long runs of one owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.types import LongType

from llft.journal.record import RECORD_TYPES, SCHEMA_VERSION, ClockRead, Delivered, Operated, Record, Sent
from llft.pipeline.audit.prints import Numbers
from llft.pipeline.campaign.derive import Derived, derive, previous
from llft.pipeline.campaign.gathered import Codes, Gathered
from llft.pipeline.decode import content_of
from llft.pipeline.ingest import arrow_schema, value_array
from llft.pipeline.schema import KIND_FIELDS, RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

SOURCE = "simulated"
PREDECESSORS = {
    ClockRead: ("clock_id", "value_ns"),
    Delivered: ("connection", "stream_offset"),
    Sent: ("connection", "position"),
}
"""Of a kind what its rows are told apart by, and what is wanted of the one before."""
WHOLE_NUMBERS = frozenset(one.name for one in RECORD_SCHEMA if one.dataType == LongType())


def table_of(gathered: Gathered, derived: Derived | None = None) -> pa.Table | None:
    """None if there is nothing: no file is better than an empty one. A chunk for each kind; operations that
    are rare have their own, for whoever looks for what is rare would have to read all others else."""
    import pyarrow as pa

    if not gathered.records:
        return None
    writer = _Writer(gathered, derived or derive(gathered))
    return pa.Table.from_batches([batch for kind in RECORD_TYPES for batch in writer.batches(kind)])


class _Writer:
    def __init__(self, gathered: Gathered, derived: Derived) -> None:
        self._records = gathered.records
        self._derived = derived
        self._nulls: dict[pa.DataType, pa.Array] = {}
        worlds, births, _, processes, _ = zip(*gathered.lanes, strict=True)
        self._world, self._process = np.array(worlds, np.int64), np.array(processes, np.int64)
        self._births = value_array(births, arrow_schema().field("birth_id").type)

    def batches(self, kind: type) -> Iterator[pa.RecordBatch]:
        rows = np.flatnonzero(self._derived.kind == RECORD_TYPES.index(kind))
        parts = [rows]
        if kind is Operated:
            rare = self._derived.rare[rows]
            parts = [rows[rare], rows[~rare]]
        yield from (self._batch(kind, part) for part in parts if len(part))

    def _batch(self, kind: type, rows: Numbers) -> pa.RecordBatch:
        import pyarrow as pa

        records = [self._records[at] for at in self._derived.order[rows].tolist()]
        stamps, *fields = zip(*records, strict=True)
        own = dict(zip(KIND_FIELDS[kind.__name__], fields, strict=True))
        columns = dict(self._common(kind, rows, stamps))
        columns |= {name: _array(name, values) for name, values in own.items()}
        columns |= _compared(kind, records)
        if kind in PREDECESSORS:
            key, value = PREDECESSORS[kind]
            before = previous(
                self._derived, rows, Codes().of(own[key], len(rows)), np.array(own[value], np.int64)
            )
            columns["previous"] = _nullable(*before)
        arrays = [
            columns[one.name] if one.name in columns else self._nothing(one.type, len(rows))
            for one in arrow_schema()
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema())

    def _common(self, kind: type, rows: Numbers, stamps: Sequence[Any]) -> Iterator[tuple[str, pa.Array]]:
        import pyarrow as pa

        derived, count, lane = self._derived, len(rows), self._derived.lane[rows]
        time_ns, group_id, _, view = zip(*stamps, strict=True)
        yield "world", pa.array(self._world[lane])
        yield "source", pa.repeat(pa.scalar(SOURCE), count)
        yield "place", pa.array(derived.place[rows])
        yield "version", pa.repeat(pa.scalar(SCHEMA_VERSION, pa.int32()), count)
        yield "kind", pa.repeat(pa.scalar(kind.__name__), count)
        yield "time_ns", _array("time_ns", time_ns)
        yield "group_id", _array("group_id", group_id)
        yield "birth_id", self._births.take(pa.array(lane))
        yield "view", _array("view", view)
        yield "process", pa.array(self._process[lane])
        yield "life", pa.array(derived.life[rows].astype(np.int32))
        yield "wall_ns", pa.array(derived.wall_ns[rows])
        yield "performed", _nullable(derived.performed[rows], derived.performed_unknown[rows])
        yield "rare", pa.array(derived.rare[rows])

    def _nothing(self, of: pa.DataType, count: int) -> pa.Array:
        """Most columns of a kind: all of one type share one memory, for filling it takes its time."""
        import pyarrow as pa

        if of not in self._nulls:
            self._nulls[of] = pa.nulls(len(self._derived.kind), of)
        return self._nulls[of].slice(0, count)


def _array(name: str, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    if name in WHOLE_NUMBERS:
        return pa.array(np.fromiter(values, np.int64, len(values)))
    codes = Codes()
    at = codes.of(values, len(values))
    return value_array(list(codes), arrow_schema().field(name).type).take(pa.array(at))


def _compared(kind: type, records: Sequence[Record]) -> dict[str, pa.Array]:
    """What replicas must have in common, by `decode`."""
    import pyarrow as pa

    if kind not in (Operated, Sent, ClockRead):
        return {}
    every = [content_of(record) for record in records]
    return {"content": pa.array(every, pa.int64())}


def _nullable(values: Numbers, unknown: Numbers) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, mask=unknown if unknown.any() else None)
