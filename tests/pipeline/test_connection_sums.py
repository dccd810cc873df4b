"""What workers make of connections and clocks, without Spark: what is the same has the same sums, and
what is not has not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from llft.pipeline.audit.clock import COLUMNS, read_clocks
from llft.pipeline.audit.connections import READ, SUMS, sum_up

SIZES = (10, 20, 30, 40)
CONNECTION = {"client_group_id": 2, "server_group_id": 1, "conn_seq_num": 1}
OTHER = CONNECTION | {"conn_seq_num": 2}
BATCH_TYPES = {
    "connection": pa.struct([(name, pa.int64()) for name in CONNECTION]),
    "kind": pa.string(),
    "life": pa.int32(),
    "view": pa.struct([("precedence", pa.int64()), ("primary_view_num", pa.int64())]),
}


def batch_of(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pa.RecordBatch:
    arrays = [
        pa.array([row.get(name) for row in rows], BATCH_TYPES.get(name, pa.int64())) for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def written(process: int = 1, connection: dict[str, int] = CONNECTION) -> list[dict[str, Any]]:
    whose = {
        "world": 0,
        "group_id": 1,
        "process": process,
        "life": 0,
        "kind": "Sent",
        "connection": connection,
    }
    return [
        whose
        | {"size": size, "digest": 1000 + at, "position": at, "previous": at - 1, "order_seq_num": 5 * at}
        for at, size in enumerate(SIZES, 1)
    ]


def read(process: int = 9, connection: dict[str, int] = CONNECTION) -> list[dict[str, Any]]:
    whose = {"world": 0, "group_id": 2, "process": process, "life": 0, "kind": "Delivered"}
    ends = [sum(SIZES[: at + 1]) for at in range(len(SIZES))]
    pieces = zip(SIZES, ends, range(1, 5), strict=True)
    return [
        whose
        | {"connection": connection, "size": size, "digest": 1000 + at, "stream_offset": end}
        | {"previous": end - size}
        for size, end, at in pieces
    ]


def shares(rows: list[dict[str, Any]], batch_rows: int = 100) -> list[dict[str, Any]]:
    batch = batch_of(rows, READ)
    pieces = (batch.slice(at, batch_rows) for at in range(0, batch.num_rows, batch_rows))
    return [row for made in sum_up(pieces) for row in made.to_pylist()]


def sums(share: dict[str, Any]) -> list[int]:
    return [share[name] for name in SUMS]


def test_who_reads_all_that_was_written_has_its_sums() -> None:
    sent, delivered = shares(written())[0], shares(read())[0]
    assert sums(sent) == sums(delivered)
    assert sent["whole"]
    assert delivered["whole"]


def test_connections_that_take_turns_are_told_apart() -> None:
    pairs = zip(written(), written(connection=OTHER), strict=True)
    found = shares([row for pair in pairs for row in pair])
    assert [(one["conn_seq_num"], one["rows"], one["whole"]) for one in found] == [(1, 4, True), (2, 4, True)]


def test_an_empty_message_counts_for_nothing_but_must_follow() -> None:
    flags = written()[-1] | {"size": 0, "digest": 7, "position": 5, "previous": 4}
    assert sums(shares([*written(), flags])[0]) == sums(shares(written())[0])
    assert not shares([*written(), flags | {"position": 6}])[0]["whole"]


def test_another_digest_or_number_or_hole_is_seen() -> None:
    other = written()
    other[2]["digest"] += 1
    assert sums(shares(other)[0]) != sums(shares(written())[0])
    moved = written()
    moved[2]["order_seq_num"] += 1
    assert shares(moved)[0]["numbered"] != shares(written())[0]["numbered"]
    jumped = read()
    jumped[2]["previous"] -= 5
    assert not shares(jumped)[0]["whole"]
    unknown = read()
    unknown[0]["previous"] = None
    assert not shares(unknown)[0]["whole"]


def readings(values: list[int], process: int = 1) -> list[dict[str, Any]]:
    view = {"precedence": 1, "primary_view_num": 1}
    before = [None, *values[:-1]]
    whose = {"process": process, "life": 0, "clock_id": 0, "view": view}
    pairs = enumerate(zip(values, before, strict=True), 1)
    return [
        whose | {"order_seq_num": at, "value_ns": value, "wall_ns": at, "previous": previous}
        for at, (value, previous) in pairs
    ]


def clocks(rows: list[dict[str, Any]], limits: dict[tuple[int, int], int]) -> list[tuple[Any, ...]]:
    names = ("process", "order_seq_num", "value_ns", "last_at", "last_value_ns")
    made = (row for one in read_clocks(limits, [batch_of(rows, COLUMNS)]) for row in one.to_pylist())
    return [tuple(row[name] for name in names) for row in made]


def test_a_step_back_and_both_ends_of_a_clock_are_told() -> None:
    assert clocks(readings([5, 7, 6, 9]), {}) == [(1, 3, 6, None, None), (1, 1, 5, 4, 9)]


def test_readings_behind_the_limit_of_a_life_do_not_count() -> None:
    both = [*readings([5, 7, 6, 9]), *readings([4, 3], process=2)]
    found = clocks(both, {(1, 0): 3})
    assert found == [(2, 2, 3, None, None), (1, 1, 5, 2, 7), (2, 1, 4, 2, 3)]
    assert clocks(readings([5, 4]), {(1, 0): 1}) == []
