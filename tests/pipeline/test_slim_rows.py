"""The watch's rows, without Spark: from the JSON as it is, and yet what the records say."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

from llft.journal.frame import FRAME, encode_record
from llft.journal.reader import read_journal
from llft.journal.record import ClockRead, Gap, MembershipChanged, Operated, Sent, ViewInstalled
from llft.pipeline.decode import content_of, process_number
from llft.pipeline.source import Piece
from llft.pipeline.watch.tail import Slim, slim_batches, values_of
from llft.pipeline.watch.watcher import GAP, KINDS, MEMBER, VIEW
from tests.pipeline.faults import change
from tests.pipeline.history import clean, write


def rows_of(path: Path, start: int = 0) -> list[Slim]:
    piece = Piece(str(path), start, path.stat().st_size)
    return [row for rows in slim_batches(piece) for row in rows]


def test_numbered_deeds_are_as_the_audit_has_them(tmp_path: Path) -> None:
    for path in write(clean(), tmp_path):
        deeds = [one for one in read_journal(path) if isinstance(one, (Operated, Sent, ClockRead))]
        expected = [
            (
                one.stamp.group_id,
                KINDS[type(one).__name__],
                process_number(0, one.stamp.group_id, one.stamp.birth_id),
                one.order_seq_num,
                content_of(one),
                int(one.stamp.view.birth_id == one.stamp.birth_id),
            )
            for one in deeds
        ]
        found = [row for row in rows_of(path) if row[1] in KINDS.values()]
        assert [(*row[:5], row[6]) for row in found] == expected


def test_views_members_and_gaps_are_told(tmp_path: Path) -> None:
    journals = clean()
    last = journals["A"][-1]
    [path, *_] = write({"A": [*journals["A"], Gap(last.stamp, 3)]}, tmp_path)
    records, rows = list(read_journal(path)), rows_of(path)
    views = [one.order_seq_num for one in records if isinstance(one, ViewInstalled)]
    assert [row[3] for row in rows if row[1] == VIEW] == views
    members = sum(len(one.membership) for one in records if isinstance(one, MembershipChanged))
    assert sum(row[1] == MEMBER for row in rows) == members
    performed = max(one.order_seq_num for one in records if isinstance(one, Operated))
    assert [(row[3], row[4]) for row in rows if row[1] == GAP] == [(performed, 3)]


def test_a_name_is_told_once_in_a_piece(tmp_path: Path) -> None:
    for path in write(clean(), tmp_path):
        named = [row[2] for row in rows_of(path) if row[7] is not None]
        assert len(named) == len(set(named)) > 0


def test_what_does_not_parse_leaves_the_rest(tmp_path: Path) -> None:
    journals = clean()
    change(journals, "D", Operated, {"order_seq_num": 8}, order_seq_num=1 << 70)
    paths = write(journals, tmp_path)
    [path] = [one for one in paths if one.stem == "D"]
    before = rows_of(path)
    assert all(row[3] < 1 << 63 for row in before)
    size = path.stat().st_size
    with path.open("ab") as file:
        for payload in (b'["Operated"', b'["Operated"],["Operated"]'):
            file.write(FRAME.pack(len(payload), crc32(payload)) + payload)
        file.write(encode_record(journals["D"][-1]))
    assert rows_of(path)[: len(before)] == before
    assert [row[:7] for row in rows_of(path, size)] == [row[:7] for row in rows_of(path)[len(before) :]]


def test_two_values_in_one_payload_are_none() -> None:
    assert values_of([b"[1]", b"[2],[3]", b"[4]"]) == [[1], None, [4]]
    assert values_of([]) == []
