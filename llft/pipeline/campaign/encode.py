"""The records of simulated worlds as the rows that journals on disk become: the same columns, the same
audit.

A batch of rows for each kind, which fills few of the columns; in it process by process, as sealed records
lie: whoever reads them meets long runs of one owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llft.journal.record import SCHEMA_VERSION, ClockRead, Delivered, Operated, Sent
from llft.pipeline.audit.prints import Numbers
from llft.pipeline.campaign.derive import Derived, derive, previous
from llft.pipeline.campaign.gathered import KIND_CODES, Gathered, gather
from llft.pipeline.decode import digests_of
from llft.pipeline.ingest import arrow_schema, value_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

__all__ = ["SOURCE", "Gathered", "gather", "table_of"]

SOURCE = "simulated"
PREDECESSORS = {
    ClockRead: ("clock_id", "value_ns"),
    Delivered: ("connection", "stream_offset"),
    Sent: ("connection", "position"),
}
"""Of a kind what its rows are told apart by, and what is wanted of the one before."""


def table_of(gathered: Gathered) -> pa.Table | None:
    """None if there is nothing: no file is better than an empty one. A chunk for each kind; operations that
    are rare have their own, for whoever looks for what is rare would have to read all others else."""
    import pyarrow as pa

    if not gathered.lanes:
        return None
    stamps = gathered.stamps.joined()
    fields = {kind: columns.joined() for kind, columns in gathered.fields.items()}
    writer = _Writer(gathered, stamps, derive(gathered, stamps, fields))
    return pa.Table.from_batches(
        [batch for kind, columns in fields.items() for batch in writer.batches(kind, columns)]
    )


class _Writer:
    def __init__(self, gathered: Gathered, stamps: dict[str, Numbers], derived: Derived) -> None:
        self._gathered = gathered
        self._stamps = stamps
        self._derived = derived
        self._nulls: dict[pa.DataType, pa.Array] = {}
        worlds, births, processes, offsets = zip(*gathered.lanes, strict=True)
        self._world, self._process = np.array(worlds, np.int64), np.array(processes, np.int64)
        self._offset_ns = np.array(offsets, np.int64)
        self._births = value_array(births, arrow_schema().field("birth_id").type)
        entries = list(gathered.codes.get("entry", ()))
        self._entry_contents = _contents(entry.encode("utf-8", "surrogatepass") for entry in entries)
        self._values = {
            name: value_array(list(codes), arrow_schema().field(name).type)
            for name, codes in gathered.codes.items()
        }

    def batches(self, kind: type, fields: dict[str, Numbers]) -> Iterator[pa.RecordBatch]:
        rows = np.flatnonzero(self._derived.kind == KIND_CODES[kind])
        in_order = np.sort(self._derived.order[rows])
        if kind is Operated:
            rare = self._derived.rare[rows]
            parts = [part for part in (rows[rare], rows[~rare]) if len(part)]
        else:
            parts = [rows]
        yield from (self._batch(kind, fields, part, in_order) for part in parts)

    def _batch(
        self, kind: type, fields: dict[str, Numbers], rows: Numbers, in_order: Numbers
    ) -> pa.RecordBatch:
        import pyarrow as pa

        records = self._derived.order[rows]
        # Fields are in the order of the kind's records, rows in that of processes.
        at = np.searchsorted(in_order, records)
        own = {name: values[at] for name, values in fields.items()}
        columns = dict(self._common(kind, rows, records))
        columns |= {name: self._array(name, values) for name, values in own.items()}
        columns |= self._compared(kind, own)
        if kind in PREDECESSORS:
            key, value = PREDECESSORS[kind]
            columns["previous"] = _nullable(*previous(self._derived, rows, own[key], own[value]))
        arrays = [
            columns[one.name] if one.name in columns else self._nothing(one.type, len(rows))
            for one in arrow_schema()
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema())

    def _common(self, kind: type, rows: Numbers, records: Numbers) -> Iterator[tuple[str, pa.Array]]:
        import pyarrow as pa

        derived, count, lane = self._derived, len(rows), self._derived.lane[rows]
        time_ns = self._stamps["time_ns"][records]
        yield "world", pa.array(self._world[lane])
        yield "source", pa.repeat(pa.scalar(SOURCE), count)
        yield "place", pa.array(derived.place[rows])
        yield "version", pa.repeat(pa.scalar(SCHEMA_VERSION, pa.int32()), count)
        yield "kind", pa.repeat(pa.scalar(kind.__name__), count)
        yield "time_ns", pa.array(time_ns)
        yield "group_id", pa.array(self._stamps["group_id"][records])
        yield "birth_id", self._births.take(pa.array(lane))
        yield "view", self._array("view", self._stamps["view"][records])
        yield "process", pa.array(self._process[lane])
        yield "life", pa.array(derived.life[rows].astype(np.int32))
        yield "wall_ns", pa.array(time_ns + self._offset_ns[lane])
        yield "performed", _nullable(derived.performed[rows], derived.performed_unknown[rows])
        yield "rare", pa.array(derived.rare[rows])

    def _nothing(self, of: pa.DataType, count: int) -> pa.Array:
        """Most columns of a kind: all of one type share one memory, for filling it takes its time."""
        import pyarrow as pa

        if of not in self._nulls:
            self._nulls[of] = pa.nulls(len(self._derived.kind), of)
        return self._nulls[of].slice(0, count)

    def _array(self, name: str, values: Numbers) -> pa.Array:
        import pyarrow as pa

        return self._values[name].take(pa.array(values)) if name in self._values else pa.array(values)

    def _compared(self, kind: type, own: dict[str, Numbers]) -> dict[str, pa.Array]:
        """What replicas must have in common, by `decode`."""
        import pyarrow as pa

        if kind is Operated:
            return {"content": pa.array(self._entry_contents[own["entry"]])}
        if kind is Sent:
            connections = np.array(list(self._gathered.codes["connection"]), np.int64)
            names = ("position", "timestamp", "size", "digest", "order_seq_num")
            columns = [*connections[own["connection"]].T, *(own[name] for name in names)]
            return {"content": pa.array(_contents(_packed(columns)))}
        if kind is ClockRead:
            return {"content": pa.array(_contents(_packed([own["clock_id"], own["value_ns"]])))}
        return {}


def _packed(columns: Sequence[Numbers]) -> Iterator[bytes]:
    """Row by row, as `decode` packs them."""
    data, width = np.stack(columns, axis=1).astype("<i8").tobytes(), 8 * len(columns)
    return (data[at : at + width] for at in range(0, len(data), width))


def _contents(every: Iterable[bytes]) -> Numbers:
    return np.frombuffer(digests_of(every), "<i8")


def _nullable(values: Numbers, unknown: Numbers) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, mask=unknown if unknown.any() else None)
