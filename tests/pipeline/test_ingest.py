"""Live segments of any host, in any order, with copies, torn or corrupt: nothing is lost in silence."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from llft.errors import MisuseError
from llft.journal.frame import FRAME, HEADER, HEADER_V1, MAGIC
from llft.journal.record import Operated, Record
from llft.journal.writer import JournalWriter
from llft.pipeline.decode import ProcessState, records_of
from llft.pipeline.frames import Damage, Frame, Tail, scan
from llft.pipeline.ingest import QUARANTINED, STATE, decode_processes, ingest, journal_files
from llft.pipeline.schema import DERIVED, FIELDS, RECORD_SCHEMA, column_type
from llft.pipeline.segments import Plan, plan
from llft.pipeline.source import JournalSource, Piece, decode_piece, whole_frames_end
from llft.pipeline.store import unread
from tests.pipeline.history import clean, write

Rows = list[dict[str, Any]]


def rows_of(plans: Iterable[Plan]) -> tuple[Rows, Rows]:
    """The records by place, and what was quarantined."""
    every = [row for batch in decode_processes(plans) for row in batch.to_pylist()]
    records = [row for row in every if row["kind"] not in (QUARANTINED, STATE)]
    ordered = sorted(records, key=lambda row: (row["process"], row["place"]))
    return ordered, [row for row in every if row["kind"] == QUARANTINED]


def without_source(rows: Rows) -> Rows:
    return [{name: value for name, value in row.items() if name != "source"} for row in rows]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return write({"D": clean()["D"]}, tmp_path / "one")[0]


def test_a_flipped_byte_costs_one_frame(journal: Path) -> None:
    """Wherever it is: the frames before and behind are read."""
    whole = journal.read_bytes()
    frames = [piece for piece in scan(whole, HEADER.size) if isinstance(piece, Frame)]
    for at in random.Random(1).sample(range(HEADER.size, len(whole)), 60):
        data = bytearray(whole)
        data[at] ^= 0x10
        pieces = list(scan(bytes(data), HEADER.size))
        sound = [piece for piece in pieces if isinstance(piece, Frame)]
        assert len(sound) == len(frames) - 1
        assert set(sound) < set(frames)
        assert (
            sum(isinstance(piece, Damage) or (isinstance(piece, Tail) and piece.size > 0) for piece in pieces)
            == 1
        )


def test_a_torn_tail_is_resumed(journal: Path, tmp_path: Path) -> None:
    """Read in two runs, cut anywhere: the same rows, derived columns and all, as if read at once."""
    whole = journal.read_bytes()
    at_once, _ = rows_of(plan([str(journal)]))
    grows = tmp_path / "grows.llj"
    for cut in random.Random(2).sample(range(HEADER.size, len(whole)), 12):
        grows.write_bytes(whole[:cut])
        first = [row for batch in decode_processes(plan([str(grows)])) for row in batch.to_pylist()]
        states = [row for row in first if row["kind"] == STATE]
        grows.write_bytes(whole)
        (one,) = plan([str(grows)])
        segment = one.segments[0]._replace(start=states[-1]["place"])
        second, bad = rows_of([Plan((segment,), states[-1]["entry"], process=one.process)])
        early = [row for row in first if row["kind"] not in (QUARANTINED, STATE)]
        ordered = sorted([*early, *second], key=lambda row: row["place"])
        assert without_source(ordered) == without_source(at_once)
        assert bad == []


def test_what_a_copy_lacks_another_gives(journal: Path, tmp_path: Path) -> None:
    whole = journal.read_bytes()
    expected, _ = rows_of(plan([str(journal)]))
    damaged, short = tmp_path / "a.llj", tmp_path / "b.llj"
    data = bytearray(whole)
    data[len(whole) // 3] ^= 1
    damaged.write_bytes(data)
    short.write_bytes(whole[: len(whole) // 2])
    records, bad = rows_of(plan([str(short), str(damaged)]))
    assert without_source(records) == without_source(expected)
    assert [row["reason"] for row in bad] == ["corrupt-but-in-a-copy"]


def test_copies_that_contradict_each_other_are_told(journal: Path, tmp_path: Path) -> None:
    journals = clean()
    index = next(at for at, record in enumerate(journals["D"]) if isinstance(record, Operated))
    changed: list[Record] = list(journals["D"])
    changed[index] = changed[index]._replace(entry=changed[index].entry[::-1])  # type: ignore[union-attr, call-arg]
    (other,) = write({"D": changed}, tmp_path / "other")
    _, bad = rows_of(plan([str(journal), str(other)]))
    assert [row["reason"] for row in bad] == ["conflicting-copy"]


def test_segments_are_one_journal(tmp_path: Path) -> None:
    records = clean()["D"]
    (whole,) = write({"D": records}, tmp_path / "whole")
    with JournalWriter(tmp_path / "parts.llj", segment_limit=1500) as writer:
        for record in records:
            writer.write(record)
    parts = sorted(map(str, tmp_path.glob("parts*.llj")))
    assert len(parts) > 3
    random.Random(3).shuffle(parts)
    expected, _ = rows_of(plan([str(whole)]))
    found, bad = rows_of(plan(parts))
    strip = ("place", "source")
    assert [{k: v for k, v in row.items() if k not in strip} for row in found] == [
        {k: v for k, v in row.items() if k not in strip} for row in expected
    ]
    assert bad == []
    without_one = [path for path in parts if not path.endswith("parts.1.llj")]
    assert [row["reason"] for row in rows_of(plan(without_one))[1]] == ["missing-segment 1"]


def test_what_was_read_before_it_was_removed_is_no_gap(tmp_path: Path) -> None:
    """A bounded journal tells of the segments that it removed: to who had not read them they are missing."""
    records = clean()["D"]
    half = len(records) // 2
    path = tmp_path / "D.llj"
    with JournalWriter(path, limit_bytes=4 * 1500) as writer:
        for record in records[:half]:
            writer.write(record)
        writer.flush()
        early = [row for batch in decode_processes(plan(_files(tmp_path))) for row in batch.to_pylist()]
        state = max((row["place"], row["entry"]) for row in early if row["kind"] == STATE)
        assert not path.with_name("D.9.llj").exists()
        for record in records[half:]:
            writer.write(record)
    assert not path.exists()
    (all_there_is,) = plan(_files(tmp_path))
    late, _ = rows_of([all_there_is])
    fresh, bad = rows_of([replace(all_there_is, segments=unread(all_there_is, state[0]), state=state[1])])
    assert {row["rare"] for row in late if row["kind"] == "Gap"} == {True}
    assert {row["rare"] for row in fresh if row["kind"] == "Gap"} == {False}
    assert bad == []
    assert None not in {row["performed"] for row in fresh}


def _files(directory: Path) -> list[str]:
    return sorted(map(str, directory.glob("*.llj")))


def test_version_1_is_still_read(journal: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.llj"
    old.write_bytes(HEADER_V1.pack(MAGIC, 1) + journal.read_bytes()[HEADER.size :])
    found, bad = rows_of(plan([str(old)]))
    expected, _ = rows_of(plan([str(journal)]))
    strip = ("place", "source", "version")
    assert [{k: v for k, v in row.items() if k not in strip} for row in found] == [
        {k: v for k, v in row.items() if k not in strip} for row in expected
    ]
    assert {row["version"] for row in found} == {1}
    assert bad == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"not a journal at all, but long enough", "not-a-journal"),
        (struct.pack("<8sII", MAGIC, 99, 0) + b"x" * 20, "unknown-version 99"),
    ],
)
def test_strangers_are_quarantined_whole(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "x.llj"
    path.write_bytes(data)
    records, bad = rows_of(plan([str(path)]))
    assert records == []
    assert [(row["reason"], row["size"]) for row in bad] == [(reason, len(data))]


def test_a_number_beyond_64_bits_is_quarantined(tmp_path: Path) -> None:
    journals = clean()["D"]
    journals[5] = journals[5]._replace(stamp=journals[5].stamp._replace(time_ns=1 << 64))
    (path,) = write({"D": journals}, tmp_path)
    records, bad = rows_of(plan([str(path)]))
    assert len(records) == len(journals) - 1
    assert bad[0]["reason"].startswith("malformed")


def test_half_a_surrogate_pair_is_kept(tmp_path: Path) -> None:
    journals = clean()["D"]
    index = next(at for at, record in enumerate(journals) if isinstance(record, Operated))
    journals[index] = journals[index]._replace(entry="\ud800")  # type: ignore[call-arg]
    (path,) = write({"D": journals}, tmp_path)
    records, _ = rows_of(plan([str(path)]))
    assert "\\ud800" in {row["entry"] for row in records}


def test_the_end_of_whole_frames(journal: Path, tmp_path: Path) -> None:
    whole = journal.read_bytes()
    frames = [piece for piece in scan(whole, HEADER.size) if isinstance(piece, Frame)]
    ends = [frame.offset + FRAME.size + len(frame.payload) for frame in frames]
    grows = tmp_path / "grows.llj"
    reached = 0
    for cut in range(HEADER.size, len(whole), 97):
        grows.write_bytes(whole[:cut])
        reached = whole_frames_end(str(grows), reached)
        assert reached == max([end for end in ends if end <= cut], default=HEADER.size)
    pieces = [
        row for batch in decode_piece(Piece(str(journal), ends[3], ends[9])) for row in batch.to_pylist()
    ]
    places = [frame.offset + at for frame in frames[4:10] for at in range(len(records_of(frame.payload)))]
    assert sorted(row["place"] for row in pieces if row["kind"] != STATE) == places


def test_a_state_goes_through_json() -> None:
    state = ProcessState(world=3, process=5, group_id=7, performed=None, clocks={"0": 9}, forgotten=True)
    assert ProcessState.from_json(state.to_json()) == state


def test_the_schema_is_that_of_the_records() -> None:
    assert RECORD_SCHEMA.names[-len(DERIVED) :] == DERIVED.names
    assert {"entry", "connection", "membership", "lost_count"} <= set(FIELDS.names)
    assert column_type(int | None) == column_type(int)
    with pytest.raises(TypeError, match="no column"):
        column_type(dict[str, int])


def test_a_directory_without_journals_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no-journals"):
        journal_files([tmp_path])


def test_spark_reads_what_python_reads(spark: SparkSession, tmp_path: Path) -> None:
    write(clean(), tmp_path / "a")
    (tmp_path / "a" / "strange.llj").write_bytes(b"not a journal at all, but long enough")
    expected, _ = rows_of(plan(journal_files([tmp_path])))
    got = ingest(spark, [tmp_path])
    found = sorted(
        (row.asDict(recursive=True) for row in got.records.collect()),
        key=lambda r: (r["process"], r["place"]),
    )
    assert found == expected
    assert [row["reason"] for row in got.quarantined.collect()] == ["not-a-journal"]
    spark.dataSource.register(JournalSource)
    source = spark.read.format("llft_journal").option("path", str(tmp_path)).load()
    assert source.filter("kind NOT LIKE '\\\\_%'").count() == len(expected)
