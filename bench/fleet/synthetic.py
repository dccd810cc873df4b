"""Journals of a fleet that never was, in the columns of sealed records: clean but for one operation.

A server group performs cycles of four operations: it receives, reads the clock, sends, and takes a mutex.
Its client sends and receives. All collect what they need no longer, and every fifty cycles there is a new
connection. Rows are made in the order in which sealed records lie (`layout.SORTED_BY`), by numpy: for Spark
to make and sort them would take longer than all that is to be measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql.pandas.types import to_arrow_schema

from llft.identifiers import BirthId
from llft.pipeline.layout import RUNNING
from llft.pipeline.schema import RECORD_SCHEMA

GROUPS = 64
REPLICAS = 3
CYCLES_PER_CONNECTION = 50
MESSAGE_BYTES = 100
OPERATIONS, CLIENT_OPERATIONS = 4, 2
ROWS_PER_CYCLE = 8 * REPLICAS + 5
FILES = 16
ROW_GROUP_ROWS = 200_000
START_NS = 1_700_000_000_000_000_000
CYCLE_NS = 1_000_000
CLIENTS_FROM = 1000
"""The client of server group g is group 1000 + g."""

PLANTED_GROUP, PLANTED_CYCLE, PLANTED_AT = 20, 30, 3
PLANTED_NUMBER = 2 + OPERATIONS * PLANTED_CYCLE + PLANTED_AT
PLANTED_REPLICA = str(BirthId(2, 2, START_NS))
DONE = "_SUCCESS"

Columns = Mapping[str, Any]
"""By name: an array, or one value for all rows. What is not named is null."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A replica of a server group; 0 is the one member of its client group."""

    server: int
    replica: int

    @property
    def is_client(self) -> bool:
        return self.replica == 0

    @property
    def group_id(self) -> int:
        return self.server + CLIENTS_FROM if self.is_client else self.server

    @property
    def process(self) -> int:
        return int(_mix(np.array([self.group_id * 8 + self.replica]))[0])

    @property
    def operations(self) -> int:
        return CLIENT_OPERATIONS if self.is_client else OPERATIONS


def write_fleet(rows: int, directory: Path) -> None:
    """By two processes, which take their memory with them."""
    cycles = max(PLANTED_CYCLE + 1, rows // (GROUPS * ROWS_PER_CYCLE))
    directory.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_write_file, range(FILES), [cycles] * FILES, [directory] * FILES))
    (directory / DONE).touch()


def _write_file(number: int, cycles: int, directory: Path) -> None:
    """Some server groups with their clients, by group and process within each kind."""
    per_file = GROUPS // FILES
    servers = range(number * per_file, (number + 1) * per_file)
    actors = [Actor(server, replica) for server in servers for replica in range(REPLICAS + 1)]
    actors.sort(key=lambda actor: (actor.group_id, actor.process))
    schema = to_arrow_schema(RECORD_SCHEMA)
    path = directory / f"part-{number:05d}.parquet"
    with parquet.ParquetWriter(path, schema, **_encoding(schema)) as writer:
        for tables in _by_kind(actors, cycles, schema):
            writer.write_table(pa.concat_tables(tables), row_group_size=ROW_GROUP_ROWS)


def _encoding(schema: pa.Schema) -> dict[str, Any]:
    """As `layout.ENCODING` has it."""
    empty = pa.BufferOutputStream()
    parquet.write_table(schema.empty_table(), empty)
    leaves = [column.path for column in parquet.ParquetFile(empty.getvalue()).schema]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "data_page_version": "2.0",
        "use_dictionary": [path for path in leaves if path not in RUNNING],
        "column_encoding": dict.fromkeys(RUNNING, "DELTA_BINARY_PACKED"),
    }


def _by_kind(actors: list[Actor], cycles: int, schema: pa.Schema) -> Iterator[list[pa.Table]]:
    """Frequent rows first, then the rare ones; each by kind."""
    for kind in (_clock_reads, _collected, _delivered, _operated, _sent):
        made = [(actor, kind(actor, cycles)) for actor in actors]
        yield [_table(actor, columns, schema) for actor, columns in made if columns is not None]
    kinds = (_membership_changes, _first_operations, _roles, _views)
    yield [_table(actor, rare(actor), schema) for rare in kinds for actor in actors]


def _table(actor: Actor, columns: Columns, schema: pa.Schema) -> pa.Table:
    count = len(columns["place"])
    known = {**_common(actor), **columns}
    known["wall_ns"] = known["time_ns"]
    arrays = [_array(known.get(one.name), one.type, count) for one in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(value: Any, of: pa.DataType, count: int) -> pa.Array:
    if isinstance(value, np.ndarray):
        return pa.array(value, of)
    if isinstance(value, pa.Array):
        return value
    return pa.nulls(count, of) if value is None else pa.repeat(pa.scalar(value, of), count)


def _common(actor: Actor) -> Columns:
    return {
        "world": 0,
        "source": "synthetic",
        "version": 2,
        "group_id": actor.group_id,
        "birth_id": _birth(actor.replica),
        "view": {"precedence": 1, "primary_view_num": 1, "birth_id": _birth(0 if actor.is_client else 1)},
        "process": actor.process,
        "life": 0,
        "rare": False,
    }


def _birth(replica: int) -> dict[str, int]:
    return {"host_id": replica, "pid": replica, "start_ns": START_NS}


def _members(actor: Actor) -> list[dict[str, Any]]:
    replicas = [0] if actor.is_client else range(1, REPLICAS + 1)
    return [{"birth_id": _birth(replica), "precedence": max(replica, 1)} for replica in replicas]


def _deeds(actor: Actor, kind: str, cycle: Any, index: Any) -> dict[str, Any]:
    """What all frequent rows have; `index`: the operation of the cycle that they belong to."""
    number = 2 + cycle * actor.operations + index
    performed = number - 1 if kind == "Operated" else number
    return {
        "kind": kind,
        "place": (cycle + 1) * 64 + index * 8 + (0 if kind == "Operated" else 1),
        "time_ns": START_NS + (cycle + 1) * CYCLE_NS + index * 1000 + actor.replica * 100,
        "performed": np.where(performed == 1, 0, performed),
    }


def _numbered(actor: Actor, kind: str, cycle: Any, index: Any) -> dict[str, Any]:
    deeds = _deeds(actor, kind, cycle, index)
    deeds["order_seq_num"] = 2 + cycle * actor.operations + index
    deeds["content"] = _mix(cycle * 8 + index, len(kind), actor.group_id)
    return deeds


def _all_operations(actor: Actor, cycles: int) -> dict[str, Any]:
    every = np.arange(cycles * actor.operations)
    cycle, index = every // actor.operations, every % actor.operations
    columns = _numbered(actor, "Operated", cycle, index)
    columns["entry"] = pa.repeat("operation x", len(every))
    if (actor.server, actor.replica) == (PLANTED_GROUP, 2) and cycles > PLANTED_CYCLE:
        at = PLANTED_CYCLE * OPERATIONS + PLANTED_AT
        columns["content"][at] += 1
        columns["entry"] = pa.array(["operation X" if one == at else "operation x" for one in every])
    return columns


def _operated(actor: Actor, cycles: int) -> Columns:
    """All but the first, which follows none and is rare."""
    return {
        name: value if name == "kind" else value[1:] for name, value in _all_operations(actor, cycles).items()
    }


def _first_operations(actor: Actor) -> Columns:
    first = {
        name: value if name == "kind" else value[:1] for name, value in _all_operations(actor, 1).items()
    }
    return {**first, "rare": True}


def _clock_reads(actor: Actor, cycles: int) -> Columns | None:
    if actor.is_client:
        return None
    cycle = np.arange(cycles)
    value = START_NS + cycle * CYCLE_NS
    previous = np.where(cycle == 0, 0, value - CYCLE_NS)
    columns = _numbered(actor, "ClockRead", cycle, np.full(cycles, 1))
    return {**columns, "clock_id": 0, "value_ns": value, "previous": previous}


def _sent(actor: Actor, cycles: int) -> Columns:
    cycle = np.arange(cycles)
    index = np.full(cycles, 0 if actor.is_client else 2)
    position = cycle % CYCLES_PER_CONNECTION + 1
    return {
        **_numbered(actor, "Sent", cycle, index),
        **_message(actor, cycle, upwards=actor.is_client),
        "position": position,
        "timestamp": _timestamp(cycle, upwards=actor.is_client),
        "previous": position - 1,
    }


def _delivered(actor: Actor, cycles: int) -> Columns:
    cycle = np.arange(cycles)
    position = cycle % CYCLES_PER_CONNECTION + 1
    return {
        **_deeds(actor, "Delivered", cycle, np.full(cycles, 1 if actor.is_client else 0)),
        **_message(actor, cycle, upwards=not actor.is_client),
        "stream_offset": position * MESSAGE_BYTES,
        "previous": (position - 1) * MESSAGE_BYTES,
    }


def _collected(actor: Actor, cycles: int) -> Columns:
    """At the end of a cycle: the client its request, the server the client's request too, from what was
    delivered."""
    cycle = np.arange(cycles)
    deeds = _deeds(actor, "Collected", cycle, np.full(cycles, actor.operations - 1))
    return {
        **deeds,
        "place": deeds["place"] + 1,
        "connection": _connection(actor, cycle),
        "which": "sent" if actor.is_client else "delivered",
        "up_to_timestamp": _timestamp(cycle, upwards=True),
    }


def _message(actor: Actor, cycle: Any, *, upwards: bool) -> Columns:
    """The digest is that of the direction up to there: requests and replies are different bytes."""
    digest = _mix(cycle, 2 + upwards, actor.server) & 0xFFFF_FFFF
    return {"connection": _connection(actor, cycle), "fd": 3, "size": MESSAGE_BYTES, "digest": digest}


def _timestamp(cycle: Any, *, upwards: bool) -> Any:
    return cycle * 10 + (0 if upwards else 2)


def _connection(actor: Actor, cycle: Any) -> pa.Array:
    count = len(cycle)
    numbers = {
        "client_group_id": np.full(count, actor.server + CLIENTS_FROM),
        "server_group_id": np.full(count, actor.server),
        "conn_seq_num": cycle // CYCLES_PER_CONNECTION + 1,
    }
    return pa.StructArray.from_arrays([pa.array(one, pa.int64()) for one in numbers.values()], list(numbers))


def _beginning(kind: str, place: int) -> dict[str, Any]:
    """Before the first cycle."""
    return {
        "kind": kind,
        "place": np.array([place]),
        "time_ns": np.array([START_NS]),
        "performed": np.array([0]),
        "rare": True,
    }


def _membership_changes(actor: Actor) -> Columns:
    return {**_beginning("MembershipChanged", 0), "change_num": 1, "membership": _members(actor)}


def _roles(actor: Actor) -> Columns:
    return {**_beginning("RoleChanged", 1), "role": "primary" if actor.replica < 2 else "backup"}


def _views(actor: Actor) -> Columns:
    return {**_beginning("ViewInstalled", 2), "order_seq_num": 1, "membership": _members(actor)}


def _mix(values: Any, *salts: int) -> Any:
    """64 bits with a sign for each value, by Stafford's mixer (the one of splitmix64)."""
    mixed = np.asarray(values).astype(np.uint64)
    for salt in (*salts, 0):
        mixed = mixed + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % (1 << 64))
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed.view(np.int64)
