"""Faults for the clean history: each with the condition that it must raise, and the place that must be
named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from llft.identifiers import NO_VIEW, BirthId, ConnectionId, Member, ViewId
from llft.instant import MS
from llft.journal.record import (
    Called,
    ClockRead,
    Collected,
    ConnectionEnded,
    Delivered,
    Diverged,
    Gap,
    MembershipChanged,
    Operated,
    Record,
    RoleChanged,
    Sent,
    Stamp,
    StateApplied,
    StateTaken,
    Superseded,
    ViewInstalled,
)
from tests.pipeline.history import (
    CLIENT,
    CONNECTION,
    SECOND,
    SERVER,
    VIEW1,
    VIEW2,
    VIEW2_NUMBER,
    A,
    B,
    C,
    D,
    Journals,
    X,
    fields_timestamp,
)

VIEW3 = ViewId(2, 3, B)
SIDE_VIEW = ViewId(1, 2, A)
SIDE_CONNECTION = ConnectionId(CLIENT, SERVER, 2)
SIDE_TEXT = b"hello"
LOAD = BirthId(0, 20, 10_005)
"""Of the process that writes down what clients saw."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    condition: str
    """"": none is to be raised."""
    plant: Callable[[Journals], None]
    place: dict[str, Any] = field(default_factory=dict)
    """Fields of the finding that must be so."""
    damage: Callable[[Path], None] | None = None
    """Of the directory, after the journals were written."""
    count: int = 1
    beside: tuple[str, ...] = ()
    """Other conditions that come with it."""


def find(records: list[Record], kind: type, **fields: Any) -> int:
    """The index of the first record like this."""
    for index, record in enumerate(records):
        if isinstance(record, kind) and all(getattr(record, name) == value for name, value in fields.items()):
            return index
    raise LookupError(f"no {kind.__name__} with {fields}")


def change(journals: Journals, name: str, kind: type, where: dict[str, Any], **fields: Any) -> None:
    index = find(journals[name], kind, **where)
    journals[name][index] = journals[name][index]._replace(**fields)


def _second_primary(journals: Journals) -> None:
    index = find(journals["D"], RoleChanged, role="backup")
    journals["D"][index] = journals["D"][index]._replace(role="primary")


def _view_skipped(journals: Journals) -> None:
    for records in journals.values():
        for index, record in enumerate(records):
            if record.stamp.view == VIEW2:
                records[index] = record._replace(stamp=record.stamp._replace(view=VIEW3))


def _drop(name: str, kind: type, **where: Any) -> Callable[[Journals], None]:
    def plant(journals: Journals) -> None:
        del journals[name][find(journals[name], kind, **where)]

    return plant


def _repeat(name: str, kind: type, **where: Any) -> Callable[[Journals], None]:
    def plant(journals: Journals) -> None:
        index = find(journals[name], kind, **where)
        journals[name].insert(index, journals[name][index])

    return plant


def _alter(name: str, kind: type, where: dict[str, Any], **fields: Any) -> Callable[[Journals], None]:
    def plant(journals: Journals) -> None:
        change(journals, name, kind, where, **fields)

    return plant


def _together(*plants: Callable[[Journals], None]) -> Callable[[Journals], None]:
    def plant(journals: Journals) -> None:
        for one in plants:
            one(journals)

    return plant


def _swap(journals: Journals) -> None:
    first, second = (
        find(journals["D"], Operated, order_seq_num=6),
        find(journals["D"], Operated, order_seq_num=7),
    )
    records = journals["D"]
    records[first], records[second] = records[second], records[first]


def _ends_in_view2(journals: Journals) -> None:
    """D dies as soon as it has passed into view 2."""
    records = journals["D"]
    del records[max(at for at, record in enumerate(records) if isinstance(record, ViewInstalled)) + 1 :]


def _clock_back(journals: Journals) -> None:
    for name in ("B", "C", "D"):
        change(
            journals, name, ClockRead, {"order_seq_num": VIEW2_NUMBER + 5}, value_ns=1_600_000_000_000_000_000
        )


def _other_bytes(journals: Journals) -> None:
    """All replicas of the reader read the same, which nobody wrote."""
    for name in ("B", "C", "D"):
        index = find(journals[name], Delivered, stream_offset=63)
        journals[name][index] = journals[name][index]._replace(digest=0x1234)


def _collected_unread(journals: Journals) -> None:
    records = journals["X"]
    stamp = records[-1].stamp
    records.insert(len(records) - 1, Collected(stamp, CONNECTION, "sent", fields_timestamp(records)))


def _gap(journals: Journals) -> None:
    """D's journal lost the three operations of a request and what goes with them."""
    records = journals["D"]
    first = find(records, Operated, order_seq_num=5)
    last = find(records, Operated, order_seq_num=8)
    records[first:last] = [Gap(records[first].stamp, last - first)]


def _diverged(journals: Journals) -> None:
    records = journals["D"]
    records.append(Diverged(records[-1].stamp, CONNECTION, 3, 0x11, 0x22))


def _side_branch(journals: Journals) -> None:
    """A goes on in view 1 while the others are in view 2, until it learns of them."""
    records = journals["A"]
    last = records[-1].stamp
    numbers = range(VIEW2_NUMBER, VIEW2_NUMBER + 3)
    records += [Operated(last._replace(time_ns=last.time_ns + n), n, f"astray {n}") for n in numbers]
    records.append(Superseded(last._replace(time_ns=last.time_ns + 100), VIEW2))


def _lost_branch(journals: Journals) -> None:
    """A has a view of its own, in which X opens another connection, is answered, and closes it; the others
    never hear of it. Nothing shows that they were apart: it may as well be A whom they should have
    followed."""
    records = journals["B"]
    last = records[-1]
    records[-1] = last._replace(
        stamp=last.stamp._replace(time_ns=last.stamp.time_ns + 100 * MS)
    )  # it goes on
    records = journals["A"]
    stamp = records[-1].stamp._replace(view=SIDE_VIEW)
    number, size, digest = VIEW2_NUMBER, len(SIDE_TEXT), crc32(SIDE_TEXT)
    records += [
        RoleChanged(stamp, "primary", "the others are silent"),
        ViewInstalled(stamp, number, (Member(A, 1),)),
        Operated(stamp, number + 1, "receive"),
        Delivered(stamp, SIDE_CONNECTION, 4, size, size, digest),
        Operated(stamp, number + 2, "send"),
        Sent(stamp, SIDE_CONNECTION, 4, 1, number + 2, size, digest, number + 2),
    ]
    records = journals["X"]
    stamp = records[-1].stamp
    number = max(one.order_seq_num for one in records if isinstance(one, Operated))
    records[-1:-1] = [
        Operated(stamp, number + 1, "send"),
        Sent(stamp, SIDE_CONNECTION, 4, 1, number + 1, size, digest, number + 1),
        Operated(stamp, number + 2, "receive"),
        Delivered(stamp, SIDE_CONNECTION, 4, size, size, digest),
        Operated(stamp, number + 3, "close"),
        ConnectionEnded(stamp, SIDE_CONNECTION, "closed", ""),
    ]


def _superseded_branch(journals: Journals) -> None:
    """The same, but A learns of the others: they were apart."""
    _lost_branch(journals)
    journals["A"].append(Superseded(journals["A"][-1].stamp, VIEW2))


def _unheard(journals: Journals) -> None:
    """A dies when it has done one thing more that it tells nobody."""
    last = journals["A"][-1].stamp
    journals["A"].append(Operated(last._replace(time_ns=last.time_ns + 1), VIEW2_NUMBER, "unheard"))


def _replies(*balances: int) -> Callable[[Journals], None]:
    """A client adds one to its account, again and again, and is told these."""

    def plant(journals: Journals) -> None:
        journals["clients"] = [
            Called(
                Stamp(10_000 * order, SERVER, LOAD, NO_VIEW),
                *("client1", "account:client1", "ADD 1", f"{order} {balance}"),
                *(10_000 * order - 5_000, 10_000 * order, order),
            )
            for order, balance in enumerate(balances, 1)
        ]

    return plant


def _corrupt(directory: Path) -> None:
    path = directory / "D.llj"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x20
    path.write_bytes(data)


def _tear(directory: Path) -> None:
    path = directory / "A.llj"
    path.write_bytes(path.read_bytes()[:-7])


def _copies(directory: Path) -> None:
    """The whole journal of D on another host, and half of one."""
    data = (directory / "D.llj").read_bytes()
    (directory / "elsewhere").mkdir()
    (directory / "elsewhere" / "D.llj").write_bytes(data)
    (directory / "elsewhere" / "half.llj").write_bytes(data[: len(data) // 2])


def _nothing(journals: Journals) -> None:
    pass


FAULTS = (
    Fault("clean", "", _nothing),
    Fault("torn", "", _nothing, damage=_tear),
    Fault("copies", "", _nothing, damage=_copies),
    Fault(
        "second primary",
        "theorem1",
        _second_primary,
        {"replica": str(D), "view": str(VIEW1), "expected": str(A)},
    ),
    Fault("view skipped", "theorem1", _view_skipped, {"order_seq_num": VIEW2_NUMBER, "view": str(VIEW3)}),
    Fault(
        "other operation",
        "theorem2",
        _alter("D", Operated, {"order_seq_num": 8}, entry="receive 99"),
        {"replica": str(D), "order_seq_num": 8, "expected": "receive 3", "found": "receive 99"},
    ),
    Fault(
        "operation missing",
        "theorem3",
        _drop("D", Operated, order_seq_num=6),
        {"replica": str(D), "order_seq_num": 7, "expected": "6"},
    ),
    Fault(
        "operation twice",
        "theorem3",
        _repeat("D", Operated, order_seq_num=6),
        {"replica": str(D), "order_seq_num": 6, "expected": "7"},
    ),
    Fault(
        "missing and twice",
        "theorem3",
        _together(_drop("D", Operated, order_seq_num=6), _repeat("D", Operated, order_seq_num=9)),
        {"replica": str(D), "order_seq_num": 7, "expected": "6"},
    ),
    Fault("out of order", "theorem3", _swap, {"replica": str(D), "order_seq_num": 7, "expected": "6"}),
    Fault(
        "other state",
        "theorem4",
        _alter("C", StateApplied, {}, digest=0xBAD),
        {"replica": str(C), "order_seq_num": VIEW2_NUMBER, "expected": "0xabcd", "found": "0xbad"},
    ),
    Fault(
        "state of nobody",
        "theorem4",
        _drop("B", StateTaken),
        {"replica": str(C), "order_seq_num": VIEW2_NUMBER, "expected": "none", "found": "0xabcd"},
    ),
    Fault(
        "view elsewhere",
        "virtual_synchrony",
        _together(
            _alter("D", ViewInstalled, {"order_seq_num": VIEW2_NUMBER}, order_seq_num=VIEW2_NUMBER - 1),
            _ends_in_view2,
        ),
        {"replica": str(D), "expected": str(VIEW2_NUMBER), "found": str(VIEW2_NUMBER - 1)},
    ),
    Fault(
        "view of others",
        "virtual_synchrony",
        _alter("D", ViewInstalled, {"order_seq_num": VIEW2_NUMBER}, membership=SECOND[:1]),
        {"replica": str(D), "order_seq_num": VIEW2_NUMBER},
    ),
    Fault(
        "view too early",
        "virtual_synchrony",
        _together(_drop("D", Operated, order_seq_num=VIEW2_NUMBER - 1), _ends_in_view2),
        {"replica": str(D), "order_seq_num": VIEW2_NUMBER, "expected": str(VIEW2_NUMBER - 1)},
    ),
    Fault(
        "bytes missing",
        "exactly_once",
        _drop("D", Delivered, stream_offset=18),
        {"replica": str(D), "connection": str(CONNECTION), "expected": "offset 9", "found": "offset 18"},
    ),
    Fault(
        "bytes twice",
        "exactly_once",
        _repeat("D", Delivered, stream_offset=18),
        {"replica": str(D), "connection": str(CONNECTION), "expected": "offset 18", "found": "offset 9"},
    ),
    Fault(
        "bytes that nobody wrote",
        "exactly_once",
        _other_bytes,
        {"connection": str(CONNECTION), "end_offset": 63, "found": "digest 0x1234"},
        count=3,
    ),
    Fault(
        "message missing",
        "exactly_once",
        _drop("X", Sent, position=2),
        {"group_id": 1, "connection": str(CONNECTION), "found": "position 3"},
        count=-1,
    ),
    Fault(
        "other output",
        "digests",
        _alter("D", Sent, {"position": 3}, digest=0xBAD),
        {"replica": str(D), "order_seq_num": 10, "begin_offset": 14, "end_offset": 21},
    ),
    Fault("own finding", "digests", _diverged, {"replica": str(D)}),
    Fault(
        "other clock",
        "clock",
        _alter("D", ClockRead, {"order_seq_num": 9}, value_ns=1_700_000_000_000_003_001),
        {"replica": str(D), "order_seq_num": 9},
    ),
    Fault("clock goes back", "clock", _clock_back, {"order_seq_num": VIEW2_NUMBER + 5}),
    Fault(
        "collected unread", "watermark", _collected_unread, {"replica": str(X), "connection": str(CONNECTION)}
    ),
    Fault(
        "ranks out of order",
        "membership",
        _alter("D", MembershipChanged, {"change_num": 2}, membership=(Member(D, 4), Member(B, 2))),
        {"replica": str(D), "view": str(VIEW2)},
    ),
    Fault(
        "other members",
        "membership",
        _alter("C", MembershipChanged, {"change_num": 3}, membership=(Member(B, 2), Member(C, 5))),
        {"view": str(VIEW2)},
    ),
    Fault("gap", "gap", _gap, {"replica": str(D), "found": "6"}),
    Fault("corrupt", "gap", _nothing, {"group_id": SERVER}, damage=_corrupt),
    Fault(
        "journal missing", "coverage", lambda journals: journals.pop("D") and None, {"other_replica": str(D)}
    ),
    Fault("replies", "", _replies(1, 2, 3, 4)),
    Fault(
        "wrong reply",
        "history",
        _replies(1, 2, 4, 4),
        {"group_id": SERVER, "replica": "client1", "order_seq_num": 3, "found": "ADD 1 = 3 4"},
    ),
    Fault(
        "unheard operation",
        "unheard_operations",
        _unheard,
        {"replica": str(A), "view": str(VIEW1), "order_seq_num": VIEW2_NUMBER},
    ),
    Fault("side branch", "pruned_operations", _side_branch, {"view": str(VIEW1)}, count=3),
    Fault(
        "branch lost without a partition",
        "exactly_once",
        _lost_branch,
        {"replica": str(X), "connection": str(SIDE_CONNECTION)},
        count=3,
        beside=("pruned_operations",),
    ),
    Fault(
        "branch behind a partition",
        "pruned_operations",
        _superseded_branch,
        {"view": str(SIDE_VIEW)},
        count=2,
    ),
)
