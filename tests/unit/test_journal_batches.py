"""Batches in a journal: however they are packed, what is read is their records."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import typing
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llft.config import GroupConfig
from llft.core.effects import WriteBatch, WriteRecord
from llft.core.outbox import STRIP_LIMIT, Outbox
from llft.core.standing import Standing
from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId, ConnectionId, ViewId
from llft.journal import packed
from llft.journal.batch import Batch, Locks, Readings, Row
from llft.journal.frame import FRAME, HEADER, encode_record, file_header
from llft.journal.pack_rows import pack_in_python
from llft.journal.packed import Packed, Strip
from llft.journal.reader import JournalReader, read_journal
from llft.journal.record import (
    ClockRead,
    Collected,
    Delivered,
    Gap,
    HeartbeatArrived,
    Operated,
    Record,
    RoleChanged,
    Sent,
    Stamp,
)
from llft.journal.unpack_rows import unpack_in_python
from llft.journal.writer import FULL, FULL_OF_RECORDS, JournalWriter
from llft.lane import choice
from llft.wire.order import (
    GENERAL,
    MUTEX,
    PRIMARY_VIEW,
    READ,
    SEND,
    SOCKET,
    TEMPLATES,
    TIME,
    counted_template,
    describe,
)
from tests.packing import InC, load_in_c, packing

BIRTH = BirthId(1, 2, 3)
WHO = (7, BIRTH, ViewId(1, 1, BIRTH))
CONNECTION = ConnectionId(1, 2, 3)
ENTRY = (READ, 4, 1, 3, 80)
ROWS: list[Row] = [
    (Delivered, CONNECTION, 4, 5, 6, 7),
    (Operated, 9, TEMPLATES[READ], ENTRY),
    (Sent, CONNECTION, 4, 1, 2, 3, 0xFFFFFFFF, 10),
    (Operated, 10, TEMPLATES[SEND], (SEND, 4, 1, 3, 80, 0xFFFFFFFF)),
    (ClockRead, 1, -1, 11),
    (Operated, 12, describe((SOCKET, 4, 1, 3, 80, b"\x01\x02"))),
    (Operated, 13, describe((GENERAL, 4, 1, 3, 80, bytes(range(100))))),
    (Collected, CONNECTION, "sent", 12),
]

usual = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-1000, 1000)
any_number = usual | st.integers(0, 1 << 64)
usual_text = st.sampled_from(["sent", "delivered"]) | st.text(
    st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="%")
)
any_text = usual_text | st.text()
Numbers = st.SearchStrategy[int]


def rows_of(numbers: Numbers, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Row]:
    connections = st.builds(ConnectionId, numbers, numbers, numbers)
    connections |= st.sampled_from([CONNECTION, ConnectionId(1, 2, 3), ConnectionId(3, 2, 1)])
    items = st.lists(numbers | st.booleans(), min_size=6, max_size=6).map(tuple)
    templates = [*TEMPLATES.values(), counted_template(SOCKET, b"1"), counted_template(GENERAL, bytes(20))]
    return st.one_of(
        st.tuples(st.just(Delivered), connections, numbers, numbers, numbers, numbers),
        st.tuples(st.just(Sent), connections, numbers, numbers, numbers, numbers, numbers, numbers),
        st.tuples(st.just(ClockRead), numbers, numbers, numbers),
        st.tuples(st.just(Collected), connections, texts, numbers),
        st.tuples(st.just(HeartbeatArrived), st.builds(BirthId, numbers, numbers, numbers), numbers),
        st.tuples(st.just(Operated), numbers, texts),
        st.tuples(
            *(
                st.just(Readings),
                st.integers(0, 1 << 62),
                numbers,
                numbers,
                numbers,
                st.lists(numbers, min_size=1),
            )
        ),
        st.tuples(
            *(st.just(Locks), st.integers(0, 1 << 62), st.just(TEMPLATES[MUTEX])),
            st.tuples(st.just(MUTEX), numbers, numbers, numbers, st.just(0), numbers),
            st.lists(numbers, min_size=1),
        ),
        st.tuples(st.just(Operated), numbers, st.sampled_from(templates), items.map(lambda one: (0, *one))),
    )


def batches_of(numbers: Numbers, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Batch]:
    who = st.sampled_from([WHO, (1 << 62, BIRTH, ViewId(-1, 2, BIRTH))])
    return st.builds(Batch, numbers, who, st.lists(rows_of(numbers, texts), min_size=1))


batches = batches_of(any_number, any_text) | batches_of(usual, usual_text)
usual_batches = batches_of(usual, usual_text)


def files_of(path: Path) -> dict[str, bytes]:
    return {found.name: found.read_bytes() for found in path.iterdir()}


def write(directory: Path, found: list[Batch], **options: int) -> dict[str, bytes]:
    directory.mkdir()
    with JournalWriter(directory / "j.llj", **options) as writer:
        for batch in found:
            writer.write_batch(batch)
    return files_of(directory)


@pytest.fixture(scope="session")
def in_c() -> InC:
    if choice.why_not():
        pytest.skip(choice.why_not())
    return load_in_c()


def strip_of(found: list[Batch]) -> Strip:
    return [item for batch in found for item in (batch.who, batch.time_ns, *batch.rows)]


def records_of(found: list[Batch]) -> list[Record]:
    return [record for batch in found for record in batch.records()]


def read_pieces(pieces: Iterable[Packed | Record]) -> list[Record]:
    """What a reader makes of them; and each frame is as it says."""
    made: list[Record] = []
    for piece in pieces:
        if type(piece) is not tuple:
            made.append(typing.cast(Record, piece))
            continue
        data, count, time_ns, who = piece
        length, checksum = FRAME.unpack_from(data)
        payload = data[FRAME.size :]
        assert (length, checksum) == (len(payload), zlib.crc32(payload))
        records = unpack_in_python(payload)
        assert len(records) == count <= len(payload) <= packed.MAX_PACKED_BYTES
        assert records[:1] == [] or records[0].stamp == Stamp(time_ns, *who)
        made += records
    return made


@settings(max_examples=300, deadline=None)
@given(st.lists(batches, max_size=5))
def test_rows_are_packed_and_come_back_as_their_records(found: list[Batch]) -> None:
    records = read_pieces(pack_in_python(strip_of(found)))
    assert records == records_of(found)
    assert [type(record) for record in records] == [type(record) for record in records_of(found)]


@settings(max_examples=500, deadline=None)
@given(st.lists(batches, max_size=5) | st.lists(usual_batches, max_size=5))
def test_c_packs_the_same_bytes_and_unpacks_the_same_records(in_c: InC, found: list[Batch]) -> None:
    strip = strip_of(found)
    expected = list(pack_in_python(strip))
    made = in_c.pack(strip)
    assert made is not None or not all(_is_plain(batch) for batch in found)
    if made is not None:
        assert made == expected
    for piece in expected:
        if type(piece) is tuple:
            payload = piece[0][FRAME.size :]
            records = in_c.unpack(payload)
            assert records == unpack_in_python(payload)
            assert repr(records) == repr(unpack_in_python(payload))


def _is_plain(value: object) -> bool:
    """What must not be left to Python."""
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        texts = value.replace("%d", "")
        return len(value) < 200 and value.isascii() and value.isprintable() and "%" not in texts
    return isinstance(value, type) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)


@settings(max_examples=400, deadline=None)
@given(st.lists(usual_batches, min_size=1, max_size=4), st.data())
def test_damaged_payloads_are_records_or_a_value_error(
    in_c: InC, found: list[Batch], data: st.DataObject
) -> None:
    """And the same in both, whatever bytes they are: a checksum can be right and its payload wrong."""
    frames = [piece[0] for piece in pack_in_python(strip_of(found)) if type(piece) is tuple]
    payload = bytearray(data.draw(st.sampled_from(frames))[FRAME.size :] if frames else packed.START)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(len(packed.START), len(payload)))
        how = data.draw(st.sampled_from(["change", "cut", "insert"]))
        if how == "cut":
            del payload[at : at + data.draw(st.integers(1, 20))]
        elif how == "insert":
            payload[at:at] = data.draw(st.binary(max_size=12))
        elif at < len(payload):
            payload[at] = data.draw(st.integers(0, 255))
    agree_on(in_c, bytes(payload))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_records_or_a_value_error(in_c: InC, data: bytes) -> None:
    agree_on(in_c, packed.START + data)
    agree_on(in_c, data)


def agree_on(in_c: InC, payload: bytes) -> None:
    try:
        expected = unpack_in_python(payload)
    except ValueError:
        assert in_c.unpack(payload) is None
        return
    assert len(expected) <= len(payload)
    assert repr(in_c.unpack(payload)) == repr(expected)


@pytest.mark.parametrize("index", [300, 1 << 31, (1 << 62) - 1, 1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize(
    "kind", [packed.OPERATED, packed.DELIVERED, packed.SENT, packed.COLLECTED, packed.WORD]
)
def test_an_index_of_any_size_that_names_nothing_is_a_value_error(in_c: InC, kind: int, index: int) -> None:
    (piece,) = pack_in_python(strip_of([Batch(5, WHO, [(Readings, 7, 4, 1, 0, [])])]))
    assert type(piece) is tuple
    start = piece[0][FRAME.size :]
    varint = bytes([index >> shift & 0x7F | 0x80 for shift in range(0, 63, 7)] + [index >> 63])
    for rest in (b"", bytes(12)):
        payload = start + bytes([kind]) + varint + rest
        with pytest.raises(ValueError, match="packed"):
            unpack_in_python(payload)
        assert in_c.unpack(payload) is None


def test_a_payload_is_bounded_before_it_is_looked_at(in_c: InC) -> None:
    (piece,) = pack_in_python(strip_of([Batch(5, WHO, ROWS)]))
    assert type(piece) is tuple
    long = piece[0][FRAME.size :] + b"\x00\x00" * packed.MAX_PACKED_BYTES
    with pytest.raises(ValueError, match="too long"):
        unpack_in_python(long)
    assert in_c.unpack(long) is None


def test_a_payload_has_a_byte_for_every_record(in_c: InC) -> None:
    """Two records of one byte each would be at the places of the next frame's."""
    (piece,) = pack_in_python(strip_of([Batch(5, WHO, [(Readings, 7, 4, 1, 0, [])])]))
    assert type(piece) is tuple
    payload = piece[0][FRAME.size : -1] + b"\x64" + bytes(100)
    with pytest.raises(ValueError, match="more packed records than bytes"):
        unpack_in_python(payload)
    assert in_c.unpack(payload) is None


def test_the_collector_may_interrupt_a_reader_with_another_one(in_c: InC) -> None:
    """By what it runs: a destructor, or while that runs another thread."""
    (piece,) = pack_in_python(strip_of([Batch(5, WHO, ROWS)]))
    assert type(piece) is tuple
    payload = piece[0][FRAME.size :]
    expected, found = unpack_in_python(payload), []

    def read(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and len(found) < 3:
            found.append(None)
            found[-1] = in_c.unpack(payload)

    threshold = gc.get_threshold()
    gc.callbacks.append(read)
    gc.set_threshold(1)
    try:
        assert in_c.unpack(payload) == expected
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(read)
    assert all(records in (None, expected) for records in found)


def test_the_known_words_are_those_of_operations() -> None:
    """Else a journal would be right, and larger."""
    assert set(TEMPLATES.values()) <= set(packed.WORDS)


def test_many_rows_are_several_frames_each_of_which_can_be_read_alone(in_c: InC) -> None:
    connections = [ConnectionId(1, 2, number % 700) for number in range(3 * packed.ROWS_MAX)]
    found = [
        Batch(number // 3, WHO, [(Delivered, each, 4, 5, number, 7), (Collected, each, "sent", number)])
        for number, each in enumerate(connections)
    ]
    pieces = list(pack_in_python(strip_of(found)))
    assert len(pieces) >= 6
    assert in_c.pack(strip_of(found)) == pieces
    assert read_pieces(pieces) == records_of(found)
    long = [Batch(5, WHO, [(Operated, number, f"{number:0250}") for number in range(400)])]
    assert len(list(pack_in_python(strip_of(long)))) >= 3
    assert in_c.pack(strip_of(long)) == list(pack_in_python(strip_of(long)))


def test_many_readings_are_several_rows(in_c: InC) -> None:
    found = [Batch(5, WHO, [(Readings, 7, 4, 1, 0, list(range(5000)))])]
    pieces = list(pack_in_python(strip_of(found)))
    assert read_pieces(pieces) == records_of(found)
    assert in_c.pack(strip_of(found)) is None


def test_locks_are_as_many_rows_of_operations(in_c: InC) -> None:
    counts, entry = [1, 2] * packed.ROWS_MAX, (MUTEX, 0, 1, 1 << 40, 1, 1)
    locks = [Batch(5, WHO, [ROWS[0], (Locks, 7, TEMPLATES[MUTEX], entry, counts), ROWS[1]])]
    single = [
        (Operated, number, TEMPLATES[MUTEX], (*entry[:4], count, 1)) for number, count in enumerate(counts, 7)
    ]
    pieces = list(pack_in_python(strip_of([Batch(5, WHO, [ROWS[0], *single, ROWS[1]])])))
    assert len(pieces) == 3
    assert list(pack_in_python(strip_of(locks))) == pieces
    assert in_c.pack(strip_of(locks)) == pieces
    assert records_of(locks) == read_pieces(pieces)


def test_another_view_is_another_frame(in_c: InC) -> None:
    other = (7, BIRTH, ViewId(2, 2, BIRTH))
    same = (7, BirthId(1, 2, 3), ViewId(1, 1, BirthId(1, 2, 3)))
    found = [Batch(5, who, ROWS[:2]) for who in (WHO, same, other, WHO)]
    pieces = list(pack_in_python(strip_of(found)))
    assert [piece[1] for piece in pieces] == [4, 2, 2]
    assert in_c.pack(strip_of(found)) == pieces
    assert read_pieces(pieces) == records_of(found)


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=60, deadline=None)
@given(st.lists(batches, max_size=5))
def test_a_batch_is_read_as_its_records(
    tmp_path_factory: pytest.TempPathFactory, in_c: InC, compiled: bool, found: list[Batch]
) -> None:
    directory = tmp_path_factory.mktemp("batches")
    with packing(in_c if compiled else None):
        write(directory / "a", found)
        assert list(read_journal(directory / "a" / "j.llj")) == records_of(found)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("open_count", [0, 1, 5, 6, 2000])
def test_a_view_is_told_as_it_is_described(
    tmp_path: Path, in_c: InC, compiled: bool, open_count: int
) -> None:
    """Whatever is open: more than goes into a row becomes a record."""
    outbox = Outbox(Standing(GroupConfig(7), BIRTH), journalling=True)
    entry = (PRIMARY_VIEW, ViewId(4, 5, BIRTH), tuple((fd, 10 * fd) for fd in range(open_count)))
    outbox.note_entry(9, entry)
    (batch,) = outbox.drain()
    assert isinstance(batch, WriteBatch)
    with packing(in_c if compiled else None):
        write(tmp_path / "a", [batch])
        (told,) = read_journal(tmp_path / "a" / "j.llj")
    assert isinstance(told, Operated)
    assert (told.order_seq_num, told.entry) == (9, describe(entry))
    bases = " ".join(f"{fd}:{10 * fd}" for fd in range(open_count))
    assert told.entry == f"primary_view {ViewId(4, 5, BIRTH)} of {BIRTH} [{bases}]"


def test_segments_and_small_buffers_cut_it_alike(tmp_path: Path, in_c: InC) -> None:
    found = [Batch(number, WHO, ROWS[: 1 + number % 6]) for number in range(8000)]
    options = {"buffer_limit": 2000, "segment_limit": 40_000, "limit_bytes": 160_000}
    with packing(in_c):
        whole = write(tmp_path / "a", found, **options)
    assert whole == write(tmp_path / "b", found, **options)
    assert len(whole) > 3
    read = [
        record for name in sorted(whole, key=segment_number) for record in read_journal(tmp_path / "a" / name)
    ]
    gaps = [record for record in read if isinstance(record, Gap)]
    kept = [record for record in read if not isinstance(record, Gap)]
    assert gaps
    assert kept == records_of(found)[-len(kept) :]
    assert gaps[-1].stamp.time_ns < kept[0].stamp.time_ns
    assert (
        sum(path.stat().st_size for path in (tmp_path / "a").iterdir()) <= 160_000 + packed.MAX_PACKED_BYTES
    )


def segment_number(name: str) -> int:
    return int(name.split(".")[1]) if name.count(".") == 2 else 0


def test_the_compiled_lane_packs_the_frequent_kinds_itself(in_c: InC) -> None:
    """All would be right if it never did, and slow."""
    found = [Batch(5, WHO, ROWS), Batch(6, WHO, ROWS[:1])]
    assert in_c.pack(strip_of(found)) == list(pack_in_python(strip_of(found)))
    for odd in ((ClockRead, 1, 1 << 64, 2), (Collected, CONNECTION, "gone\n", 1), (ClockRead, None, 1, 2)):
        assert in_c.pack(strip_of([Batch(5, WHO, [odd])])) is None


def test_what_has_no_place_in_a_packed_frame_keeps_its_place_among_others() -> None:
    odd = (Operated, 14, "100 % of it")
    found = [Batch(5, WHO, [*ROWS, odd, *ROWS])]
    pieces = list(pack_in_python(strip_of(found)))
    assert [type(piece) for piece in pieces] == [tuple, Operated, tuple]
    assert read_pieces(pieces) == records_of(found)


def test_a_record_takes_few_bytes() -> None:
    """A request's: what it takes is what the disk, and whoever reads it, has to bear."""
    birth = BirthId(1_234_567_890, 123_456, 1_760_000_000_123_456_789)
    found = [
        Batch(
            5_000_000_000_000 + number * 400_000,
            (100, birth, ViewId(1, 1, birth)),
            [
                (Delivered, CONNECTION, 4, 100, 100 * number, number * 0x9E3779B1 & 0xFFFFFFFF),
                (Operated, 2 * number, TEMPLATES[READ], (READ, number, 1, 3, 100)),
                (Sent, CONNECTION, 4, number, 7 * number, 100, number * 0x85EBCA77 & 0xFFFFFFFF, 2 * number),
                (Operated, 2 * number + 1, TEMPLATES[SEND], (SEND, number, 1, 3, 7 * number)),
                (Collected, CONNECTION, "sent", 7 * number),
            ],
        )
        for number in range(200)
    ]
    (piece,) = pack_in_python(strip_of(found))
    plain = sum(len(encode_record(record)) for record in records_of(found))
    assert len(piece[0]) * 15 < plain


def test_readings_in_a_row_are_the_records_of_each(tmp_path: Path, in_c: InC) -> None:
    batch = Batch(5, WHO, [(Readings, 7, 4, 1, 0, [100, 100, 1 << 60])])
    texts = [describe((TIME, 4, 1, 0, value)) for value in (100, 100, 1 << 60)]
    records = batch.records()
    assert [record.entry for record in records if isinstance(record, Operated)] == texts
    assert [record[1:] for record in records if isinstance(record, ClockRead)] == [
        (0, 100, 7),
        (0, 100, 8),
        (0, 1 << 60, 9),
    ]
    with packing(in_c), JournalWriter(tmp_path / "j") as writer:
        writer.write_batch(batch)
        writer.flush()
        assert writer.statistics()["written_count"] == 6
    assert list(read_journal(tmp_path / "j")) == records


def test_both_lanes_write_the_same_bytes(tmp_path: Path) -> None:
    if choice.why_not():
        pytest.skip(choice.why_not())
    program = (
        "import sys; from tests.unit.test_journal_batches import *;"
        "write(Path(sys.argv[1]), [Batch(number, WHO, ROWS) for number in range(500)])"
    )
    for lane in ("reference", "compiled"):
        command = [sys.executable, "-c", program, str(tmp_path / lane)]
        environment = {**os.environ, choice.VARIABLE: lane, "PYTHONPATH": choice.SOURCES}
        subprocess.run(command, env=environment, check=True, timeout=60)
    assert files_of(tmp_path / "reference") == files_of(tmp_path / "compiled")


def test_a_record_behind_a_batch_stays_behind_it(tmp_path: Path, in_c: InC) -> None:
    batch, record = Batch(5, WHO, ROWS), RoleChanged(Stamp(6, *WHO), "left", "")
    with packing(in_c), JournalWriter(tmp_path / "j") as writer:
        writer.write_batch(batch)
        writer.write(record)
        writer.write_batch(batch)
        writer.flush()
        expected: list[Record] = [*batch.records(), record, *batch.records()]
        assert list(read_journal(tmp_path / "j")) == expected
        assert writer.statistics()["written_count"] == len(expected)


def test_records_wait_each_in_its_place_among_the_rows(tmp_path: Path, in_c: InC) -> None:
    expected: list[Record] = []
    with packing(in_c), JournalWriter(tmp_path / "j") as writer:
        for number in range(2 * FULL_OF_RECORDS + 1):
            record = RoleChanged(Stamp(number, *WHO), "left", str(number))
            writer.write(record)
            expected.append(record)
            if number % 3:
                writer.write_batch(Batch(number, WHO, ROWS))
                expected += Batch(number, WHO, ROWS).records()
        writer.flush()
        assert list(read_journal(tmp_path / "j")) == expected


def test_a_record_is_not_encoded_before_there_is_time_for_it(tmp_path: Path) -> None:
    """At a change of the primary clients wait for whoever writes it down."""
    writer = JournalWriter(tmp_path / "j")
    unheard_of: Any = object()
    writer.write(RoleChanged(Stamp(6, *WHO), unheard_of, ""))
    with pytest.raises(TypeError):
        writer.flush()
    writer.close()


def test_few_rows_wait_to_be_packed(tmp_path: Path, in_c: InC) -> None:
    with packing(in_c), JournalWriter(tmp_path / "j") as writer:
        for number in range(FULL):
            writer.write_batch(Batch(number, WHO, ROWS[:1]))
            assert len(writer.strip) < FULL
        assert writer.statistics()["written_count"] > FULL // 2


def test_a_journal_of_packed_frames_cut_anywhere_yields_a_prefix(tmp_path: Path) -> None:
    found = [Batch(number, WHO, ROWS) for number in range(6)]
    with JournalWriter(tmp_path / "j") as writer:
        for batch in found:
            writer.write_batch(batch)
            writer.flush()
    data, cut = (tmp_path / "j").read_bytes(), tmp_path / "cut"
    for length in range(HEADER.size, len(data)):
        cut.write_bytes(data[:length])
        with JournalReader(cut) as reader:
            records = list(reader)
            assert records == records_of(found)[: len(records)]
            assert len(records) % len(ROWS) == 0
            assert reader.offset + reader.torn_bytes == length
            cut.write_bytes(data)
            assert records + list(reader) == records_of(found)


def test_a_flipped_byte_in_a_packed_frame_never_gives_a_wrong_record(tmp_path: Path) -> None:
    found = [Batch(number, WHO, ROWS) for number in range(4)]
    with JournalWriter(tmp_path / "j") as writer:
        for batch in found:
            writer.write_batch(batch)
            writer.flush()
    data, path = (tmp_path / "j").read_bytes(), tmp_path / "flipped"
    last_start = data.rindex(packed.START) - FRAME.size
    for index in range(HEADER.size, len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 0x01
        path.write_bytes(damaged)
        if index < last_start:
            with pytest.raises(PeerError, match="journal-corrupt"):
                list(read_journal(path))
        elif index >= last_start + FRAME.size:
            assert list(read_journal(path)) == records_of(found[:-1])


def test_a_sound_frame_that_does_not_parse_is_a_peer_error(tmp_path: Path) -> None:
    payload = packed.START + bytes(10) + b"\x0a"
    frame = FRAME.pack(len(payload), zlib.crc32(payload)) + payload
    (tmp_path / "j").write_bytes(file_header() + frame)
    with pytest.raises(PeerError, match="journal-record-malformed"):
        list(read_journal(tmp_path / "j"))


def test_who_stops_in_the_middle_of_a_frame_goes_on_there(tmp_path: Path) -> None:
    batch = Batch(5, WHO, ROWS)
    with JournalWriter(tmp_path / "j") as writer:
        writer.write_batch(batch)
    with JournalReader(tmp_path / "j") as reader:
        first = next(iter(reader))
        assert [first, *reader] == batch.records()


class FullDisk:
    full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "full")
        return os.write(fd, data)

    def settle(self) -> None: ...
    def abandon(self) -> None: ...


def test_what_a_full_disk_loses_of_batches_is_a_gap(tmp_path: Path, in_c: InC) -> None:
    disk = FullDisk()
    with packing(in_c), JournalWriter(tmp_path / "j", buffer_limit=2000, sink=disk) as writer:
        disk.full = True
        for number in range(100):
            writer.write_batch(Batch(number, WHO, ROWS))
            assert not writer.flush()
        disk.full = False
        writer.write_batch(Batch(100, WHO, ROWS))
    found = list(read_journal(tmp_path / "j"))
    (gap,) = (record for record in found if isinstance(record, Gap))
    assert gap.lost_count + len(found) - 1 == 101 * len(ROWS)


def test_a_closed_journal_takes_no_batch(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "j")
    writer.close()
    with pytest.raises(MisuseError, match="journal-closed"):
        writer.write_batch(Batch(5, WHO, ROWS))


def test_rows_that_follow_one_another_are_one_batch() -> None:
    outbox = Outbox(Standing(GroupConfig(7), BIRTH), journalling=True)
    outbox.now_ns = 5
    outbox.note(ROWS[0])
    outbox.note_entry(9, ENTRY)
    outbox.multicast(7, b"")
    outbox.note_entry(10, (TIME, 1, 2, 3, 4))
    outbox.standing.view = WHO[2]
    outbox.note(ROWS[0])
    outbox.record(RoleChanged, "left", "")
    first, _, second, third, last = outbox.drain()
    assert isinstance(first, WriteBatch)
    assert first.rows == [ROWS[0], (Operated, 9, TEMPLATES[READ], ENTRY)]
    assert isinstance(second, WriteBatch)
    assert [type(record) for record in second.records()] == [Operated, ClockRead]
    assert isinstance(third, WriteBatch)
    assert third.records()[0].stamp == Stamp(5, *WHO)
    assert isinstance(last, WriteRecord)
    outbox.now_ns = 6
    outbox.note(ROWS[0])
    (fourth,) = outbox.drain()
    assert isinstance(fourth, WriteBatch)
    assert (fourth.time_ns, fourth.rows) == (6, [ROWS[0]])


def test_rows_go_into_the_journals_strip_at_once(tmp_path: Path) -> None:
    """But not those behind a record, which is an effect, until that is performed: their order stays."""
    outbox, expected = Outbox(Standing(GroupConfig(7), BIRTH), journalling=True), []
    outbox.standing.view = WHO[2]
    with JournalWriter(tmp_path / "j") as writer:
        outbox.note_into(writer.strip)
        for step in range(40):
            outbox.now_ns = 100 + step // 2
            if step == 25:
                outbox.standing.view = ViewId(2, 2, BIRTH)
            stamp = Stamp(outbox.now_ns, 7, BIRTH, outbox.standing.view)
            for number in range(step % 4):
                outbox.note((ClockRead, 0, number, step))
                expected.append(ClockRead(stamp, 0, number, step))
                if step % 7 == number:
                    outbox.record(RoleChanged, "backup", str(step))
                    expected.append(RoleChanged(stamp, "backup", str(step)))
            assert not outbox.effects or isinstance(outbox.effects[0], WriteRecord)
            perform(writer, outbox)
            if step % 11 == 10:
                writer.flush()
    assert list(read_journal(tmp_path / "j")) == expected


def perform(writer: JournalWriter, outbox: Outbox) -> None:
    for effect in outbox.drain():
        if isinstance(effect, WriteBatch):
            writer.write_batch(effect)
        else:
            assert isinstance(effect, WriteRecord)
            writer.write(effect.record)


def test_a_strip_that_nobody_takes_is_bounded(tmp_path: Path) -> None:
    outbox = Outbox(Standing(GroupConfig(7), BIRTH), journalling=True)
    with JournalWriter(tmp_path / "j") as writer:
        outbox.note_into(writer.strip)
        for number in range(STRIP_LIMIT + 10):
            outbox.note((ClockRead, 0, number, 1))
        assert len(writer.strip) == STRIP_LIMIT
        perform(writer, outbox)
        assert writer.strip == []
        outbox.note((ClockRead, 0, STRIP_LIMIT + 10, 1))
        assert len(writer.strip) == 3
    values = [record.value_ns for record in read_journal(tmp_path / "j") if isinstance(record, ClockRead)]
    assert values == list(range(STRIP_LIMIT + 11))


def test_a_row_of_an_operation_becomes_what_describes_its_entry() -> None:
    for kind, template in TEMPLATES.items():
        entry = (kind, 1, 2, 3, 4, True)[: 2 + template.count("%d") - 1]
        (record,) = Batch(5, WHO, [(Operated, 1, template, entry)]).records()
        assert record == Operated(Stamp(5, *WHO), 1, describe(entry))
