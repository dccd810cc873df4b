"""The watch's rows, without Spark: mostly by regular expression, and yet what the records say."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.identifiers import BirthId, ConnectionId, ViewId
from llft.journal.frame import FRAME, encode_record
from llft.journal.reader import read_journal
from llft.journal.record import (
    ClockRead,
    Gap,
    MembershipChanged,
    Operated,
    Record,
    Sent,
    Stamp,
    ViewInstalled,
)
from llft.pipeline.decode import content_of, process_number
from llft.pipeline.source import Piece
from llft.pipeline.watch.runs import Run, unpacked
from llft.pipeline.watch.slim import runs_of
from llft.pipeline.watch.tail import read_piece
from llft.pipeline.watch.usual import BEGINNING, SPELLINGS
from llft.pipeline.watch.watcher import GAP, KINDS, MEMBER, OPERATED, VIEW, view_key
from tests.pipeline.faults import change
from tests.pipeline.history import clean, write

SOURCE = BirthId(2, 12, 10_030)
STAMP = Stamp(5, 100, SOURCE, ViewId(1, 1, BirthId(1, 11, 10_020)))
Row = tuple[int, int, int, int]


def runs_in(path: Path, start: int = 0) -> list[Run]:
    piece = Piece(str(path), start, path.stat().st_size)
    return [run for runs in read_piece(piece) for run in runs]


def rows_in(runs: list[Run], code: int) -> list[Row]:
    """Replica, number, content, and whether it is the primary."""
    rows = unpacked(run for run in runs if run.code == code)
    columns = (rows.replica, rows.number, rows.content, rows.primary)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def payload_of(record: Record) -> bytes:
    return encode_record(record)[FRAME.size :]


def runs_from(*payloads: bytes) -> list[Run]:
    return [run for runs in runs_of(payloads) for run in runs]


def is_usual(payload: bytes) -> bool:
    spelling = SPELLINGS.get(payload[:BEGINNING])
    return spelling is not None and spelling.pattern.fullmatch(payload) is not None


def row_of(deed: Operated | Sent | ClockRead) -> Row:
    content, stamp = content_of(deed), deed.stamp
    assert content is not None
    who = process_number(0, stamp.group_id, stamp.birth_id)
    return who, deed.order_seq_num, content, int(stamp.view.birth_id == stamp.birth_id)


def test_numbered_deeds_are_as_the_audit_has_them(tmp_path: Path) -> None:
    for path in write(clean(), tmp_path):
        runs, records = runs_in(path), list(read_journal(path))
        assert {run.group_id for run in runs} == {one.stamp.group_id for one in records}
        for kind in (Operated, Sent, ClockRead):
            expected = [row_of(one) for one in records if isinstance(one, kind)]
            assert sorted(rows_in(runs, KINDS[kind.__name__])) == sorted(expected)


def test_what_the_writer_writes_is_usual(tmp_path: Path) -> None:
    """Else the watch would be right, but late."""
    for path in write(clean(), tmp_path):
        for record in read_journal(path):
            if type(record).__name__ in KINDS:
                assert is_usual(payload_of(record))


def test_runs_are_few_and_in_the_journals_order() -> None:
    numbers = [7, 8, 9, 20, 10]
    [run] = runs_from(*(payload_of(Operated(STAMP, number, "wake")) for number in numbers))
    assert [row[1] for row in rows_in([run], OPERATED)] == numbers
    assert (run.view, run.primary, run.name) == (view_key(1, 1), 0, str(SOURCE))


INTEGERS = st.one_of(
    st.integers(-(1 << 65), 1 << 65), st.integers(-3, 300), st.sampled_from([1 << 63, (1 << 63) - 1])
)


@given(
    number=INTEGERS,
    entry=st.one_of(st.text(), st.text(st.characters(max_codepoint=127)), st.just("a\ud800")),
    connection=st.tuples(INTEGERS, INTEGERS, INTEGERS),
    rest=st.tuples(INTEGERS, INTEGERS, INTEGERS, INTEGERS),
)
def test_any_record_is_read_as_the_audit_reads_it(
    number: int, entry: str, connection: tuple[int, ...], rest: tuple[int, ...]
) -> None:
    """Whatever way it takes; and what has no place in a column is left out."""
    records = (
        Operated(STAMP, number, entry),
        Sent(STAMP, ConnectionId(*connection), 3, *rest, number),
        ClockRead(STAMP, rest[0], rest[1], number),
    )
    values = ((), (*connection, *rest), rest[:2])
    for record, others in zip(records, values, strict=True):
        fits = all(-(1 << 63) <= one < 1 << 63 for one in (number, *others)) and number >= 0
        rows = rows_in(runs_from(payload_of(record)), KINDS[type(record).__name__])
        assert rows == ([row_of(record)] if fits else [])


@pytest.mark.parametrize(
    ("usual", "unusual"),
    [
        (b'],9,"wake"]', b'], 9, "wake" ]'),
        (b'],9,"wake"]', b'],9,"w\\u0061ke"]'),
        (b'],9,"wake"]', b'],9,"wake"]\n'),
    ],
)
def test_another_spelling_says_the_same(usual: bytes, unusual: bytes) -> None:
    payload = payload_of(Operated(STAMP, 9, "wake"))
    other = payload.replace(usual, unusual)
    assert is_usual(payload)
    assert not is_usual(other)
    assert runs_from(other) == runs_from(payload)


@pytest.mark.parametrize(
    "wrong", [b'],09,"wake"]', b'],9,"wa"ke"]', b'],9,"wake"]]', b'],-9,"wake"]', b"],9]"]
)
def test_what_is_no_record_is_none(wrong: bytes) -> None:
    payload = payload_of(Operated(STAMP, 9, "wake"))
    assert runs_from(payload.replace(b'],9,"wake"]', wrong)) == []


@pytest.mark.parametrize(
    "view",
    [
        ViewId(1 << 31, 1, SOURCE),
        ViewId(1, 1 << 40, SOURCE),
        ViewId(-1, 1, SOURCE),
        ViewId(1, 1, SOURCE._replace(pid=1 << 70)),
    ],
)
def test_a_view_that_cannot_be_leaves_the_rest(view: ViewId) -> None:
    wrong = Operated(STAMP._replace(view=view), 8, "wake")
    right = Operated(STAMP, 9, "wake")
    assert runs_from(payload_of(wrong), payload_of(right)) == runs_from(payload_of(right))


def test_views_members_and_gaps_are_told(tmp_path: Path) -> None:
    journals = clean()
    last = journals["A"][-1]
    [path, *_] = write({"A": [*journals["A"], Gap(last.stamp, 3)]}, tmp_path)
    records, runs = list(read_journal(path)), runs_in(path)
    views = [one.order_seq_num for one in records if isinstance(one, ViewInstalled)]
    assert [row[1] for row in rows_in(runs, VIEW)] == views
    members = sum(len(one.membership) for one in records if isinstance(one, MembershipChanged))
    assert len(rows_in(runs, MEMBER)) == members
    performed = max(one.order_seq_num for one in records if isinstance(one, Operated))
    assert [row[1:3] for row in rows_in(runs, GAP)] == [(performed, 3)]


def test_a_gap_is_behind_the_last_operation_before_it() -> None:
    deeds = [Operated(STAMP, 4, "wake"), Gap(STAMP, 2), Operated(STAMP, 9, "wake"), Gap(STAMP, 1)]
    runs = runs_from(*map(payload_of, deeds))
    assert [row[1:3] for row in rows_in(runs, GAP)] == [(4, 2), (9, 1)]


def test_what_does_not_parse_leaves_the_rest(tmp_path: Path) -> None:
    journals = clean()
    change(journals, "D", Operated, {"order_seq_num": 8}, order_seq_num=1 << 70)
    paths = write(journals, tmp_path)
    [path] = [one for one in paths if one.stem == "D"]
    before = runs_in(path)
    deeds = [one for one in read_journal(path) if isinstance(one, Operated)]
    assert len(rows_in(before, OPERATED)) == len(deeds) - 1
    size = path.stat().st_size
    with path.open("ab") as file:
        for payload in (b'["Operated"', b'["Operated"],["Operated"]'):
            file.write(FRAME.pack(len(payload), crc32(payload)) + payload)
        file.write(b"\x05\x00\x00\x00damaged")
        file.write(encode_record(Operated(deeds[-1].stamp, 1 << 40, "wake")))
    assert [row[1] for row in rows_in(runs_in(path, size), OPERATED)] == [1 << 40]
    assert sum(len(run.numbers) for run in runs_in(path)) == sum(len(run.numbers) for run in before) + 8


def test_a_piece_ends_where_it_was_told(tmp_path: Path) -> None:
    [path, *_] = write(clean(), tmp_path)
    size = path.stat().st_size
    more = encode_record(Operated(STAMP, 1 << 40, "wake"))
    whole = runs_in(path)
    path.write_bytes(path.read_bytes() + more)
    assert [run for runs in read_piece(Piece(str(path), 0, size)) for run in runs] == whole
