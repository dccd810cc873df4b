"""The journal: what is written is what is read; tails may be torn, middles may not."""

from __future__ import annotations

import errno
import os
import struct
import typing
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llft import originals
from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId, ConnectionId, Member, ViewId
from llft.journal.frame import FRAME, HEADER, MAGIC, MAX_PAYLOAD_BYTES, encode_record, file_header
from llft.journal.reader import JournalReader, read_journal
from llft.journal.record import (
    RECORD_TYPES,
    Delivered,
    Gap,
    Operated,
    Record,
    RoleChanged,
    Stamp,
    ViewInstalled,
)
from llft.journal.writer import JournalWriter

BIRTH = BirthId(1, 2, 3)
STAMP = Stamp(5, 7, BIRTH, ViewId(1, 1, BIRTH))
SAMPLE: list[Record] = [
    RoleChanged(STAMP, "primary", "alone"),
    ViewInstalled(STAMP, 4, (Member(BIRTH, 1), Member(BirthId(9, 9, 9), 2))),
    Delivered(STAMP, ConnectionId(1, 2, 3), 4, 5, 6, 7),
    Operated(STAMP, 1, 'READ "ünïcode" \ud800'),
]


def write_all(path: Path, records: list[Record]) -> bytes:
    with JournalWriter(path) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


def frame_of(payload: bytes) -> bytes:
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def read_bytes(path: Path, data: bytes) -> tuple[list[Record], int]:
    path.write_bytes(data)
    with JournalReader(path) as reader:
        records = list(reader)
        return records, reader.torn_bytes


def test_records_come_back_with_their_types(tmp_path: Path) -> None:
    write_all(tmp_path / "j", SAMPLE)
    found = list(read_journal(tmp_path / "j"))
    assert found == SAMPLE
    assert [type(record) for record in found] == [type(record) for record in SAMPLE]
    installed = found[1]
    assert isinstance(installed, ViewInstalled)
    assert isinstance(installed.membership[1], Member)
    assert isinstance(installed.membership[1].birth_id, BirthId)
    assert isinstance(installed.stamp.view, ViewId)


def any_record(kind: type[Record]) -> st.SearchStrategy[Record]:
    def value_of(hint: object) -> st.SearchStrategy[object]:
        if hint is int:
            return st.integers(-(1 << 63), 1 << 64)
        if hint is str:
            return st.text(max_size=20)
        if typing.get_origin(hint) is tuple:
            return st.lists(value_of(typing.get_args(hint)[0]), max_size=4).map(tuple)
        assert isinstance(hint, type)
        return st.builds(hint, *(value_of(field) for field in typing.get_type_hints(hint).values()))

    return typing.cast(st.SearchStrategy[Record], value_of(kind))


@settings(max_examples=60, deadline=None)
@given(records=st.lists(st.one_of([any_record(kind) for kind in RECORD_TYPES]), max_size=8))
def test_every_record_type_survives(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    write_all(path, records)
    assert list(read_journal(path)) == records


def test_a_journal_cut_anywhere_yields_a_prefix(tmp_path: Path) -> None:
    data = write_all(tmp_path / "j", SAMPLE)
    for length in range(len(data)):
        records, torn_bytes = read_bytes(tmp_path / "cut", data[:length])
        assert records == SAMPLE[: len(records)]
        whole = sum(len(encode_record(record)) for record in records)
        assert torn_bytes == length - whole - (HEADER.size if length >= HEADER.size else 0)
        assert len(records) < len(SAMPLE)


def test_zeros_after_the_last_frame_are_a_torn_tail(tmp_path: Path) -> None:
    data = write_all(tmp_path / "j", SAMPLE)
    assert read_bytes(tmp_path / "z", data + bytes(100_000)) == (SAMPLE, 100_000)


def test_a_flipped_byte_never_gives_a_wrong_record(tmp_path: Path) -> None:
    data = write_all(tmp_path / "j", SAMPLE)
    last_start = len(data) - len(encode_record(SAMPLE[-1]))
    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 0x01
        if index >= last_start + FRAME.size:
            assert read_bytes(tmp_path / "f", bytes(damaged))[0] == SAMPLE[:-1]
        elif index < last_start:
            with pytest.raises(PeerError):
                read_bytes(tmp_path / "f", bytes(damaged))


def test_a_length_that_hides_later_frames_is_corruption(tmp_path: Path) -> None:
    data = bytearray(write_all(tmp_path / "j", SAMPLE))
    struct.pack_into("<I", data, HEADER.size, len(data) * 2)
    with pytest.raises(PeerError, match="journal-corrupt"):
        read_bytes(tmp_path / "f", bytes(data))


def test_an_absurd_length_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="journal-corrupt"):
        read_bytes(tmp_path / "f", file_header() + FRAME.pack(0xFFFFFFFF, 1) + b"x")


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"hello, world, this is text", "not-a-journal"),
        (b"hello", "not-a-journal"),
        (HEADER.pack(MAGIC, 99, 0, 0), "journal-version-unknown"),
        (file_header() + frame_of(b'["Unheard",1]'), "journal-record-malformed"),
        (file_header() + frame_of(b'["Gap",[5,7,[1,2,3],[1,1,[1,2,3]]],"x"]'), "journal-record-malformed"),
        (file_header() + frame_of(b'["Gap",[5,7,[1,2],[1,1,[1,2,3]]],1]'), "journal-record-malformed"),
        (file_header() + frame_of(b'["Gap"]'), "journal-record-malformed"),
        (file_header() + frame_of(b"{}"), "journal-record-malformed"),
        (file_header() + frame_of(b"[" * 100_000), "journal-record-malformed"),
        (file_header() + frame_of(b"\xff\xfe"), "journal-record-malformed"),
    ],
)
def test_what_no_writer_writes_is_a_peer_error_with_a_remedy(
    tmp_path: Path, data: bytes, condition: str
) -> None:
    with pytest.raises(PeerError) as caught:
        read_bytes(tmp_path / "f", data)
    assert caught.value.condition == condition
    assert caught.value.remedy


def test_a_journal_can_be_tailed(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "j")
    with JournalReader(tmp_path / "j") as reader:
        for record in SAMPLE:
            assert list(reader) == []
            writer.write(record)
            assert writer.flush()
            assert list(reader) == [record]
    writer.close()


def test_a_tail_that_is_completed_later_is_read_then(tmp_path: Path) -> None:
    data = write_all(tmp_path / "j", SAMPLE)
    path = tmp_path / "slow"
    path.write_bytes(data[:-3])
    with JournalReader(path) as reader:
        assert list(reader) == SAMPLE[:-1]
        assert reader.torn_bytes > 0
        path.write_bytes(data)
        assert list(reader) == SAMPLE[-1:]
        assert reader.torn_bytes == 0


def test_an_existing_journal_is_refused(tmp_path: Path) -> None:
    write_all(tmp_path / "j", SAMPLE)
    with pytest.raises(MisuseError, match="journal-exists"):
        JournalWriter(tmp_path / "j")


def test_a_closed_journal_takes_no_more(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "j")
    writer.close()
    writer.close()
    with pytest.raises(MisuseError, match="journal-closed"):
        writer.write(SAMPLE[0])


class FullDisk:
    """The write of a disk that accepts `room` more bytes, in pieces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 30
        self._write = os.write
        monkeypatch.setattr(originals, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        size = min(self.room, 7, len(data))
        if not size:
            raise OSError(errno.ENOSPC, "no space left on device")
        self.room -= size
        return self._write(fd, bytes(data[:size]))


def numbered(number: int) -> Operated:
    return Operated(STAMP._replace(time_ns=number), number, "READ")


@pytest.mark.reference
def test_what_a_full_disk_loses_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    writer = JournalWriter(tmp_path / "j", buffer_limit=1024)
    disk.room = 100
    for number in range(100):
        writer.write(numbered(number))
        assert writer.statistics()["buffered_bytes"] <= 1024
    dropped_count = writer.statistics()["dropped_count"]
    assert dropped_count > 50
    assert writer.last_error is not None
    disk.room = 1 << 30
    for number in range(100, 110):
        writer.write(numbered(number))
    writer.close()
    found = list(read_journal(tmp_path / "j"))
    kept_count = 100 - dropped_count
    lost = Gap(numbered(kept_count).stamp, dropped_count)
    expected = [*map(numbered, range(kept_count)), lost, *map(numbered, range(100, 110))]
    assert found == expected


def test_a_journal_is_bounded_and_what_was_removed_is_a_gap(tmp_path: Path) -> None:
    """The newest part is always there; of what came before that, what is missing is told."""
    path, limit_bytes = tmp_path / "j.llj", 16384
    with JournalWriter(path, limit_bytes=limit_bytes) as writer:
        for number in range(500):
            writer.write(numbered(number))
            writer.flush()
            assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= limit_bytes + 1024
    segments = sorted(tmp_path.iterdir(), key=lambda file: int(file.name.split(".")[1]))
    assert path not in segments
    assert len(segments) == 4
    found = [record for segment in segments for record in read_journal(segment)]
    numbers = [record.order_seq_num for record in found if isinstance(record, Operated)]
    assert numbers == list(range(numbers[0], 500))
    gaps = [record for record in found if isinstance(record, Gap)]
    assert gaps[-1].stamp.time_ns + gaps[-1].lost_count == numbers[0]


@pytest.mark.reference
def test_a_loss_at_the_very_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    writer = JournalWriter(tmp_path / "j", buffer_limit=1024)
    disk.room = 0
    for number in range(40):
        writer.write(numbered(number))
    dropped_count = writer.statistics()["dropped_count"]
    disk.room = 1 << 30
    writer.close()
    assert list(read_journal(tmp_path / "j"))[-1] == Gap(numbered(40 - dropped_count).stamp, dropped_count)


@pytest.mark.reference
def test_close_raises_when_records_are_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    writer = JournalWriter(tmp_path / "j")
    disk.room = 10
    writer.write(SAMPLE[0])
    with pytest.raises(OSError, match="no space"):
        writer.close()
    assert list(read_journal(tmp_path / "j")) == []


def test_a_record_beyond_the_limit_becomes_a_gap(tmp_path: Path) -> None:
    large = Operated(STAMP, 1, "x" * MAX_PAYLOAD_BYTES)
    write_all(tmp_path / "j", [SAMPLE[0], large, SAMPLE[0]])
    assert list(read_journal(tmp_path / "j")) == [SAMPLE[0], Gap(STAMP, 1), SAMPLE[0]]
