"""Batches in a journal: however they are framed, the bytes are those of their records."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llft.config import GroupConfig
from llft.core.effects import WriteBatch, WriteRecord
from llft.core.outbox import Outbox
from llft.core.standing import Standing
from llft.errors import MisuseError
from llft.identifiers import BirthId, ConnectionId, ViewId
from llft.journal import unframed
from llft.journal.batch import Batch, Readings, Row
from llft.journal.frame import encode_record
from llft.journal.reader import read_journal
from llft.journal.record import (
    ClockRead,
    Collected,
    Delivered,
    Gap,
    Operated,
    Record,
    RoleChanged,
    Sent,
    Stamp,
)
from llft.journal.writer import JournalWriter
from llft.lane import choice
from llft.wire.order import GENERAL, READ, SEND, SOCKET, TEMPLATES, TIME, describe

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
Encode = Callable[[list[Batch]], bytes | None]

numbers = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-1000, 1000) | st.integers(0, 1 << 64)
connections = st.builds(ConnectionId, numbers, numbers, numbers)


def entries_of(template: str) -> st.SearchStrategy[tuple[Any, ...]]:
    numbers_or_truth = st.lists(numbers | st.booleans(), min_size=6, max_size=6)
    return numbers_or_truth.map(lambda items: (template, (0, *items)))


rows = st.one_of(
    st.tuples(st.just(Delivered), connections, numbers, numbers, numbers, numbers),
    st.tuples(st.just(Sent), connections, numbers, numbers, numbers, numbers, numbers, numbers),
    st.tuples(st.just(ClockRead), numbers, numbers, numbers),
    st.tuples(st.just(Collected), connections, st.sampled_from(["sent", "delivered"]) | st.text(), numbers),
    st.tuples(st.just(Operated), numbers, st.text()),
    st.tuples(
        st.just(Readings), st.integers(0, 1 << 62), numbers, numbers, numbers, st.lists(numbers, min_size=1)
    ),
    st.tuples(st.just(Operated), numbers, st.sampled_from(list(TEMPLATES.values())).flatmap(entries_of)).map(
        lambda made: (*made[:2], *made[2])
    ),
)
batches = st.builds(
    Batch, numbers, st.sampled_from([WHO, (1 << 62, BIRTH, ViewId(-1, 2, BIRTH))]), st.lists(rows, min_size=1)
)


def files_of(path: Path) -> dict[str, bytes]:
    return {found.name: found.read_bytes() for found in path.iterdir()}


def write(
    directory: Path, found: list[Batch], *, one_by_one: bool = False, **options: int
) -> dict[str, bytes]:
    directory.mkdir()
    with JournalWriter(directory / "j.llj", **options) as writer:
        for batch in found:
            if one_by_one:
                for record in batch.records():
                    writer.write(record)
            else:
                writer.write_batch(batch)
    return files_of(directory)


@pytest.fixture(scope="session")
def encode() -> Encode:
    """Of the compiled lane, beside the reference lane that tests run on."""
    if choice.why_not():
        pytest.skip(choice.why_not())
    (path,) = Path(choice.directory(), "llft/journal").glob("frames.*.so")
    loader = ExtensionFileLoader("llft.journal.frames", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    found: Encode = module.encode
    return found


@settings(max_examples=300)
@given(st.lists(batches, max_size=5))
def test_a_batch_is_framed_as_its_records_are(encode: Encode, found: list[Batch]) -> None:
    frames = encode(found)
    plain = all(_is_plain(batch) for batch in found)
    assert frames is not None or not plain
    if frames is not None:
        assert frames == b"".join(encode_record(record) for batch in found for record in batch.records())


def _is_plain(value: object) -> bool:
    """What must not be left to Python."""
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return len(value) < 200 and value.isascii() and value.isprintable() and not {'"', "\\"} & set(value)
    return isinstance(value, type) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)


@pytest.mark.parametrize("number", [0, 9, 10, 99, 100, 9999, 10_000, 10**18, (1 << 63) - 1])
def test_numbers_are_written_as_python_writes_them(encode: Encode, number: int) -> None:
    for value in (number, -number, -number - 1):
        batch = Batch(number, WHO, [(ClockRead, value, 0, 1)])
        assert encode([batch]) == encode_record(batch.records()[0])


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=60)
@given(st.lists(batches, max_size=5))
def test_a_batch_is_written_as_its_records_are(
    tmp_path_factory: pytest.TempPathFactory, encode: Encode, compiled: bool, found: list[Batch]
) -> None:
    directory = tmp_path_factory.mktemp("batches")
    with framing(encode if compiled else None):
        assert write(directory / "a", found) == write(directory / "b", found, one_by_one=True)


@contextmanager
def framing(encode: Encode | None) -> Iterator[None]:
    before = unframed.encode
    unframed.encode = encode
    try:
        yield
    finally:
        unframed.encode = before


def test_segments_and_small_buffers_cut_it_where_records_are_cut(tmp_path: Path, encode: Encode) -> None:
    found = [Batch(number, WHO, ROWS[: 1 + number % 6]) for number in range(2000)]
    options = {"buffer_limit": 2000, "segment_limit": 9000, "limit_bytes": 60_000}
    with framing(encode):
        whole = write(tmp_path / "a", found, **options)
    assert whole == write(tmp_path / "b", found, one_by_one=True, **options)
    assert len(whole) > 3


def test_the_compiled_lane_frames_the_frequent_kinds_itself(encode: Encode) -> None:
    """All would be right if it never did, and slow."""
    found = [Batch(5, WHO, ROWS), Batch(6, WHO, ROWS[:1])]
    frames = [encode_record(record) for batch in found for record in batch.records()]
    assert encode(found) == b"".join(frames)
    for odd in ((ClockRead, 1, 1 << 64, 2), (Collected, CONNECTION, "gone\n", 1), (ClockRead, None, 1, 2)):
        assert encode([Batch(5, WHO, [odd])]) is None


def test_readings_in_a_row_are_the_records_of_each(tmp_path: Path, encode: Encode) -> None:
    batch = Batch(5, WHO, [(Readings, 7, 4, 1, 0, [100, 100, 1 << 60])])
    texts = [describe((TIME, 4, 1, 0, value)) for value in (100, 100, 1 << 60)]
    records = batch.records()
    assert [record.entry for record in records if isinstance(record, Operated)] == texts
    assert [record[1:] for record in records if isinstance(record, ClockRead)] == [
        (0, 100, 7),
        (0, 100, 8),
        (0, 1 << 60, 9),
    ]
    assert batch.record_count() == len(records) == 6
    with framing(encode), JournalWriter(tmp_path / "j") as writer:
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


def test_a_record_behind_a_batch_stays_behind_it(tmp_path: Path, encode: Encode) -> None:
    batch, record = Batch(5, WHO, ROWS), RoleChanged(Stamp(6, *WHO), "left", "")
    with framing(encode), JournalWriter(tmp_path / "j") as writer:
        writer.write_batch(batch)
        writer.write(record)
        writer.write_batch(batch)
        writer.flush()
        expected: list[Record] = [*batch.records(), record, *batch.records()]
        assert list(read_journal(tmp_path / "j")) == expected
        assert writer.statistics()["written_count"] == len(expected)


def test_few_rows_wait_to_be_framed(tmp_path: Path, encode: Encode) -> None:
    with framing(encode), JournalWriter(tmp_path / "j") as writer:
        for number in range(unframed.FULL):
            writer.write_batch(Batch(number, WHO, ROWS[:1]))
        assert writer.statistics()["written_count"] == unframed.FULL


class FullDisk:
    full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "full")
        return os.write(fd, data)

    def settle(self) -> None: ...
    def abandon(self) -> None: ...


def test_what_a_full_disk_loses_of_batches_is_a_gap(tmp_path: Path, encode: Encode) -> None:
    disk = FullDisk()
    with framing(encode), JournalWriter(tmp_path / "j", buffer_limit=2000, sink=disk) as writer:
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


def test_a_row_of_an_operation_becomes_what_describes_its_entry() -> None:
    for kind, template in TEMPLATES.items():
        entry = (kind, 1, 2, 3, 4, True)[: 2 + template.count("%d") - 1]
        (record,) = Batch(5, WHO, [(Operated, 1, template, entry)]).records()
        assert record == Operated(Stamp(5, *WHO), 1, describe(entry))
