"""What workers do with Arrow batches: no Spark here. However rows are cut into batches, sums are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llft.identifiers import BirthId
from llft.pipeline.audit.lives import Life
from llft.pipeline.audit.prints import READ, print_runs
from llft.pipeline.audit.streams import Meter, measure
from llft.pipeline.audit.suspects import Print, suspects
from llft.pipeline.scan import Part, groups_of, opened, read_groups

COUNT = 10_000


def rows(count: int = COUNT, process: int = 7) -> dict[str, Any]:
    number = np.arange(1, count + 1)
    return {
        "world": np.zeros(count, np.int64),
        "group_id": np.full(count, 3),
        "kind": ["Operated"] * count,
        "process": np.full(count, process),
        "life": np.zeros(count, np.int32),
        "order_seq_num": number,
        "content": np.random.default_rng(1).integers(-(1 << 63), 1 << 63, count),
        "wall_ns": number * 10,
    }


def prints_of(columns: dict[str, Any], batch_rows: int = COUNT) -> list[Print]:
    batch = pa.RecordBatch.from_pydict(columns).select(list(READ))
    pieces = (batch.slice(at, batch_rows) for at in range(0, batch.num_rows, batch_rows))
    found = (row for each in print_runs(pieces) for row in each.to_pylist())
    return [Print(*(row[name] for name in Print._fields)) for row in found]


def suspected(*replicas: list[Print]) -> list[int]:
    lives = [Life(3, process, 0, BirthId(process, 1, 1), 0, 0) for process in range(1, 1 + len(replicas))]
    every = [one._replace(process=number) for number, mine in enumerate(replicas, 1) for one in mine]
    return [one.bucket for one in suspects(every, lives)]


@pytest.mark.parametrize("batch_rows", [1, 100, 4096, COUNT])
def test_batches_do_not_matter(batch_rows: int) -> None:
    assert suspected(prints_of(rows()), prints_of(rows(), batch_rows)) == []


def test_rows_of_replicas_that_take_turns_are_few_prints() -> None:
    one, other = rows(process=1), rows(process=2)
    both = {
        name: [each for pair in zip(one[name], other[name], strict=True) for each in pair] for name in one
    }
    found = prints_of(
        {name: pa.array(values, _type_of(one[name])) for name, values in both.items()}, 2 * COUNT
    )
    assert sorted(found) == sorted(prints_of(one) + prints_of(other))


def _type_of(values: Any) -> pa.DataType:
    return pa.array(values).type


def test_a_row_that_is_missing_is_seen() -> None:
    short = {name: values[:-1] for name, values in rows().items()}
    assert suspected(prints_of(rows()), prints_of(short)) == [2]


def test_two_contents_in_each_others_places_are_seen() -> None:
    swapped = rows()
    swapped["content"][[5, 6]] = swapped["content"][[6, 5]]
    assert suspected(prints_of(rows()), prints_of(swapped)) == [0]


def test_a_row_that_comes_three_times_is_seen() -> None:
    """Which the exclusive or is blind to; and here the number of rows is right as well."""
    once, thrice = rows(), rows()
    for name in ("order_seq_num", "content"):
        thrice[name][[11, 12]] = thrice[name][10]
    one, other = prints_of(once), prints_of(thrice)
    assert one[0].rows == other[0].rows
    assert suspected(one, other) == [0]


def messages() -> list[tuple[int, int, int, int]]:
    """Connection, position, size and digest; some have no bytes."""
    random = np.random.default_rng(2)
    lengths = [1, 7, 30, 2, 50]
    found = []
    for connection, length in enumerate(lengths):
        for position in range(1, length + 1):
            size = 0 if connection != 2 and random.random() < 0.2 else int(random.integers(1, 99))
            found.append((connection, position, size, int(random.integers(0, 1 << 32))))
    return found


@pytest.mark.parametrize("batch_rows", [1, 3, 16, 1000])
def test_streams_are_measured_as_step_by_step(batch_rows: int) -> None:
    every = messages()
    expected, meters, offsets = [], {}, {}  # type: ignore[var-annotated]
    for connection, _, size, digest in every:
        plain = meters.setdefault(connection, Meter()).step(size, digest)
        offsets[connection] = offsets.get(connection, 0) + size
        expected.append((offsets[connection], plain, True, size == 0))
    batch = pa.RecordBatch.from_pylist(
        [
            {
                "world": 0,
                "group_id": 3,
                "epoch": 0,
                "order_seq_num": number,
                "timestamp": number,
                "connection": {"client_group_id": 1, "server_group_id": 3, "conn_seq_num": connection},
                "position": position,
                "size": size,
                "digest": digest,
            }
            for number, (connection, position, size, digest) in enumerate(every)
        ]
    )
    pieces = (batch.slice(at, batch_rows) for at in range(0, batch.num_rows, batch_rows))
    names = ("end_offset", "plain_digest", "follows", "is_empty")
    found = [tuple(row[name] for name in names) for each in measure(pieces) for row in each.to_pylist()]
    assert found == expected


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    """From three row groups, of which the statistics exclude one and answer for another."""
    columns = rows(300)
    columns["kind"] = ["ClockRead"] * 100 + ["Operated"] * 150 + ["Sent"] * 50
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table(columns), path, row_group_size=100)
    where = {"kind": ("Operated", "Sent"), "order_seq_num": range(150, 260)}
    wanted = ("order_seq_num", "kind", "life", "entry")
    with opened(path) as file:
        found = [
            row
            for number in range(2)
            for batch in read_groups(file, groups_of(file, Part(path, number, 2)), wanted, where)
            for row in batch.to_pylist()
        ]
    assert [row["order_seq_num"] for row in found] == list(range(150, 260))
    assert [row["kind"] for row in found] == columns["kind"][149:259]
    assert {row["life"] for row in found} == {0}
    assert {row["entry"] for row in found} == {None}
