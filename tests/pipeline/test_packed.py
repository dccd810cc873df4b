"""Journals whose frames have many records: they are read as if each had one, and damage stays where it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from llft.journal import packed
from llft.journal.frame import FRAME, HEADER, HEADER_V1, MAGIC, file_header
from llft.journal.packed import START
from llft.journal.record import SCHEMA_VERSION, Operated
from llft.journal.writer import JournalWriter
from llft.lane import choice
from llft.pipeline.decode import records_of
from llft.pipeline.frames import Frame, scan
from llft.pipeline.ingest import STATE, decode_processes
from llft.pipeline.segments import Plan, plan
from llft.pipeline.source import Piece, decode_piece, whole_frames_end
from llft.pipeline.watch.tail import read_piece
from tests.packing import InC, load_in_c, packing
from tests.pipeline.history import clean, write, write_one
from tests.pipeline.test_ingest import Rows, rows_of

PER_FRAME = 9


@pytest.fixture(scope="session")
def in_c() -> InC:
    if choice.why_not():
        pytest.skip(choice.why_not())
    return load_in_c()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return write({"D": clean()["D"]}, tmp_path / "packed", per_frame=PER_FRAME)[0]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write({"D": clean()["D"]}, tmp_path / "plain", per_frame=0)[0]


def without(rows: Rows, *names: str) -> Rows:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def frames_in(path: Path) -> Iterator[Frame]:
    return (piece for piece in scan(path.read_bytes(), HEADER.size) if isinstance(piece, Frame))


def test_the_rows_are_those_of_a_journal_that_is_not_packed(journal: Path, plain: Path) -> None:
    """Derived columns and all; only their places are others, each of them once and in order."""
    found, bad = rows_of(plan([str(journal)]))
    expected, _ = rows_of(plan([str(plain)]))
    assert without(found, "place", "source") == without(expected, "place", "source")
    assert bad == []
    assert {row["version"] for row in found} == {SCHEMA_VERSION}
    places = [row["place"] for row in found]
    assert places == sorted(set(places))
    packed_count = sum(frame.payload.startswith(START) for frame in frames_in(journal))
    assert packed_count > 5
    assert len(list(frames_in(journal))) < len(found) // 3


@pytest.mark.parametrize("compiled", [False, True])
def test_with_and_without_c_the_rows_are_the_same(journal: Path, in_c: InC, compiled: bool) -> None:
    expected, _ = rows_of(plan([str(journal)]))
    with packing(in_c if compiled else None):
        found, bad = rows_of(plan([str(journal)]))
        runs = [run for some in read_piece(Piece(str(journal), 0, journal.stat().st_size)) for run in some]
    assert (found, bad) == (expected, [])
    assert runs == [run for some in read_piece(Piece(str(journal), 0, 1 << 30)) for run in some]


def test_a_flipped_byte_costs_the_records_of_one_frame(journal: Path, tmp_path: Path) -> None:
    whole = journal.read_bytes()
    expected, _ = rows_of(plan([str(journal)]))
    sizes = {frame.offset: len(records_of(frame.payload)) for frame in frames_in(journal)}
    path = tmp_path / "damaged.llj"
    for at in random.Random(4).sample(range(HEADER.size, len(whole)), 40):
        data = bytearray(whole)
        data[at] ^= 0x10
        path.write_bytes(data)
        found, bad = rows_of(plan([str(path)]))
        (hit,) = (offset for offset in sizes if offset == max(one for one in sizes if one <= at))
        lost = range(hit, hit + sizes[hit])
        kept = [row for row in expected if row["place"] not in lost]
        strip = ("source", "performed", "previous", "rare", "wall_ns")
        assert without(found, *strip) == without(kept, *strip)
        assert [row["place"] for row in bad] == [hit]


def test_a_sound_frame_that_does_not_parse_is_quarantined_whole(journal: Path, tmp_path: Path) -> None:
    """Its checksum holds, and a row in it is of no kind; all others are read."""
    whole, frames = journal.read_bytes(), list(frames_in(journal))
    (frame, *_) = (one for one in frames[5:] if one.payload.startswith(START))
    payload = frame.payload + b"\x0a"
    bad_frame = FRAME.pack(len(payload), crc32(payload)) + payload
    end = frame.offset + FRAME.size + len(frame.payload)
    path = tmp_path / "odd.llj"
    path.write_bytes(whole[: frame.offset] + bad_frame + whole[end:])
    found, bad = rows_of(plan([str(path)]))
    everything, _ = rows_of(plan([str(journal)]))
    assert len(found) == len(everything) - len(records_of(frame.payload))
    assert [(row["reason"], row["place"]) for row in bad] == [
        ("malformed: no kind of a packed row is 10", frame.offset)
    ]


def test_a_tail_is_read_piece_by_piece_as_it_grows(journal: Path, tmp_path: Path) -> None:
    """The batch with its state, the stream and the watch: no record twice, none left out."""
    whole = journal.read_bytes()
    expected, _ = rows_of(plan([str(journal)]))
    grows = tmp_path / "grows.llj"
    start, places, watched = 0, [], 0
    for cut in [*sorted(random.Random(5).sample(range(HEADER.size, len(whole)), 15)), len(whole)]:
        grows.write_bytes(whole[:cut])
        end = whole_frames_end(str(grows), start)
        piece = Piece(str(grows), start, end)
        rows = [row for batch in decode_piece(piece) for row in batch.to_pylist()]
        places += [row["place"] for row in rows if not row["kind"].startswith("_")]
        watched += sum(len(run.numbers) // 8 for runs in read_piece(piece) for run in runs)
        start = end
    assert sorted(places) == [row["place"] for row in expected]
    at_once = [run for runs in read_piece(Piece(str(journal), 0, len(whole))) for run in runs]
    assert watched == sum(len(run.numbers) // 8 for run in at_once)


def test_what_came_before_a_frame_is_known_in_it(tmp_path: Path) -> None:
    """Read in two runs, between any two frames."""
    (path,) = write({"D": clean()["D"]}, tmp_path, per_frame=PER_FRAME)
    expected, _ = rows_of(plan([str(path)]))
    (one,) = plan([str(path)])
    for frame in frames_in(path):
        early = one.segments[0]._replace(end=frame.offset)
        rows = [
            row
            for batch in decode_processes([Plan((early,), process=one.process)])
            for row in batch.to_pylist()
        ]
        (state,) = (row["entry"] for row in rows if row["kind"] == STATE)
        late = one.segments[0]._replace(start=frame.offset)
        found, bad = rows_of([Plan((late,), state, process=one.process)])
        assert found == [row for row in expected if row["place"] >= frame.offset]
        assert bad == []


def test_older_versions_are_still_read(plain: Path, tmp_path: Path) -> None:
    body = plain.read_bytes()[HEADER.size :]
    start = HEADER.pack(MAGIC, 2, 0, 0)[:-4]
    second = start + crc32(start).to_bytes(4, "little")
    expected, _ = rows_of(plan([str(plain)]))
    for version, header in ((1, HEADER_V1.pack(MAGIC, 1)), (2, second), (3, file_header())):
        old = tmp_path / f"{version}.llj"
        old.write_bytes(header + body)
        found, bad = rows_of(plan([str(old)]))
        strip = ("place", "source", "version")
        assert without(found, *strip) == without(expected, *strip)
        assert {row["version"] for row in found} == {version}
        assert bad == []


def test_segments_of_packed_frames_are_one_journal(tmp_path: Path) -> None:
    records = clean()["D"]
    (whole,) = write({"D": records}, tmp_path / "whole")
    with JournalWriter(tmp_path / "parts.llj", segment_limit=700) as writer:
        for count, record in enumerate(records):
            write_one(writer, record, packed=True)
            if count % 5 == 0:
                writer.flush()
    parts = sorted(map(str, tmp_path.glob("parts*.llj")))
    assert len(parts) > 2
    expected, _ = rows_of(plan([str(whole)]))
    found, bad = rows_of(plan(parts))
    assert without(found, "place", "source") == without(expected, "place", "source")
    assert bad == []


def test_no_more_is_believed_than_fits(tmp_path: Path) -> None:
    payload = START + bytes(packed.MAX_PACKED_BYTES)
    path = tmp_path / "long.llj"
    first = write({"D": clean()["D"][:1]}, tmp_path / "first")[0].read_bytes()
    path.write_bytes(first + FRAME.pack(len(payload), crc32(payload)) + payload)
    found, bad = rows_of(plan([str(path)]))
    assert len(found) == 1
    assert [row["reason"] for row in bad] == ["malformed: not a packed frame, or too long"]


def test_what_is_odd_in_a_packed_frame_is_left_out_by_the_watch(tmp_path: Path) -> None:
    records = clean()["D"]
    index = next(at for at, record in enumerate(records) if isinstance(record, Operated))
    records[index] = records[index]._replace(order_seq_num=-5)  # type: ignore[call-arg]
    (path,) = write({"D": records}, tmp_path)
    runs = [run for some in read_piece(Piece(str(path), 0, path.stat().st_size)) for run in some]
    (plain_path,) = write({"D": records}, tmp_path / "plain", per_frame=0)
    expected = [run for some in read_piece(Piece(str(plain_path), 0, 1 << 30)) for run in some]
    assert sorted(runs) == sorted(expected)
