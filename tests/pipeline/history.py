"""A small clean history, written by hand: the records of every process, for tests to plant faults in.

Server group 100 has A, B and D; X is the one member of client group 1, with one connection. After five
requests A dies, B becomes primary in view 2, C joins with a state, and five more requests follow. A sixth
is never read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from llft.identifiers import BirthId, ConnectionId, Member, ViewId
from llft.journal.batch import Batch
from llft.journal.frame import FREQUENT
from llft.journal.record import (
    ClockRead,
    Collected,
    Delivered,
    MembershipChanged,
    Operated,
    Record,
    RoleChanged,
    Sent,
    Stamp,
    StateApplied,
    StateTaken,
    ViewInstalled,
)
from llft.journal.writer import JournalWriter

SERVER, CLIENT = 100, 1
A, B, C, D = (
    BirthId(host, 10 + host, start_ns) for host, start_ns in enumerate((10_020, 10_030, 12_000, 10_040), 1)
)
X = BirthId(9, 19, 10_010)
CONNECTION = ConnectionId(CLIENT, SERVER, 1)
VIEW1, VIEW2, CLIENT_VIEW = ViewId(1, 1, A), ViewId(2, 2, B), ViewId(1, 1, X)
FIRST = (Member(A, 1), Member(B, 2), Member(D, 4))
SECOND = (Member(B, 2), Member(D, 4))
THIRD = (Member(B, 2), Member(D, 4), Member(C, 5))
REQUESTS_BEFORE = REQUESTS_AFTER = 5
OPERATIONS_PER_REQUEST = 3
VIEW2_NUMBER = 2 + OPERATIONS_PER_REQUEST * REQUESTS_BEFORE
"""The order number at which view 2 begins; view 1 has number 1."""

Journals = dict[str, list[Record]]
NAMES = {A: "A", B: "B", C: "C", D: "D", X: "X"}


class Direction:
    """What went over the connection one way: bytes, and their running digest."""

    def __init__(self) -> None:
        self.position = self.offset = self.digest = 0

    def write(self, text: str) -> int:
        self.position += 1
        self.offset += len(text)
        self.digest = crc32(text.encode(), self.digest)
        return len(text)


class History:
    """Writes the records, with a clock that never stands still."""

    def __init__(self) -> None:
        self.journals: Journals = {name: [] for name in NAMES.values()}
        self.time_ns = 10_000
        self.number = 1
        self.client_number = 1
        self.up, self.down = Direction(), Direction()
        self.clock_ns = 1_700_000_000_000_000_000

    def add(self, birth: BirthId, view: ViewId, kind: Callable[..., Record], *fields: Any) -> None:
        self.time_ns += 10
        group = CLIENT if birth == X else SERVER
        self.journals[NAMES[birth]].append(kind(Stamp(self.time_ns, group, birth, view), *fields))

    def begin(self) -> None:
        self.add(X, CLIENT_VIEW, RoleChanged, "primary", "founded")
        self.add(X, CLIENT_VIEW, ViewInstalled, 1, (Member(X, 1),))
        for birth in (A, B, D):
            self.add(birth, VIEW1, MembershipChanged, 1, FIRST)
            self.add(birth, VIEW1, RoleChanged, "primary" if birth == A else "backup", "founded")
            self.add(birth, VIEW1, ViewInstalled, 1, FIRST)

    def request(self, view: ViewId, replicas: tuple[BirthId, ...], *, answered: bool = True) -> None:
        """Written by X, read by all replicas, who look at the clock and answer; X reads that."""
        size = self.up.write(f"request {self.up.position + 1}")
        self._client_operation("send")
        fields = self.up.position, self.client_number, size, self.up.digest, self.client_number
        self.add(X, CLIENT_VIEW, Sent, CONNECTION, 3, *fields)
        if not answered:
            return
        first, self.number = self.number + 1, self.number + OPERATIONS_PER_REQUEST
        self.clock_ns += 1_000
        reply = self.down.write(f"reply {self.down.position + 1}")
        for birth in replicas:
            self.add(birth, view, Operated, first, f"receive {self.up.position}")
            self.add(birth, view, Delivered, CONNECTION, 3, size, self.up.offset, self.up.digest)
            self.add(birth, view, Operated, first + 1, f"clock {self.clock_ns}")
            self.add(birth, view, ClockRead, 0, self.clock_ns, first + 1)
            self.add(birth, view, Operated, first + 2, f"send {self.down.position}")
            fields = self.down.position, first + 2, reply, self.down.digest, first + 2
            self.add(birth, view, Sent, CONNECTION, 3, *fields)
        self._client_operation("receive")
        self.add(X, CLIENT_VIEW, Delivered, CONNECTION, 3, reply, self.down.offset, self.down.digest)
        self.add(X, CLIENT_VIEW, Collected, CONNECTION, "sent", fields_timestamp(self.journals["X"]))

    def _client_operation(self, what: str) -> None:
        self.client_number += 1
        self.add(X, CLIENT_VIEW, Operated, self.client_number, what)

    def change_view(self) -> None:
        self.number += 1
        assert self.number == VIEW2_NUMBER
        for birth in (B, D):
            self.add(birth, VIEW2, MembershipChanged, 2, SECOND)
            self.add(birth, VIEW2, RoleChanged, "primary" if birth == B else "backup", "A died")
            self.add(birth, VIEW2, ViewInstalled, self.number, SECOND)

    def join(self) -> None:
        self.add(C, ViewId(0, 0, BirthId(0, 0, 0)), RoleChanged, "joining", "started")
        self.add(B, VIEW2, StateTaken, self.number, 100, 0xABCD)
        self.add(C, VIEW2, StateApplied, self.number, 100, 0xABCD)
        for birth in (B, D, C):
            self.add(birth, VIEW2, MembershipChanged, 3, THIRD)
        self.add(C, VIEW2, RoleChanged, "backup", "joined")


def fields_timestamp(records: list[Record]) -> int:
    """Of the last message that X sent."""
    return next(record.timestamp for record in reversed(records) if isinstance(record, Sent))


def clean() -> Journals:
    history = History()
    history.begin()
    for _ in range(REQUESTS_BEFORE):
        history.request(VIEW1, (A, B, D))
    history.change_view()
    history.join()
    for _ in range(REQUESTS_AFTER):
        history.request(VIEW2, (B, D, C))
    history.request(VIEW2, (), answered=False)
    for birth, view in ((X, CLIENT_VIEW), (B, VIEW2)):
        history.add(birth, view, RoleChanged, "primary", "still")
    return history.journals


def write(journals: Journals, directory: Path, *, per_frame: int = 7) -> list[Path]:
    """As replicas do: of the frequent kinds so many records go into one frame; 0: none is packed."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, records in journals.items():
        path = directory / f"{name}.llj"
        with JournalWriter(path) as writer:
            for count, record in enumerate(records, 1):
                write_one(writer, record, packed=per_frame > 0)
                if per_frame and count % per_frame == 0:
                    writer.flush()
        paths.append(path)
    return paths


def write_one(writer: JournalWriter, record: Record, *, packed: bool) -> None:
    if packed and type(record) in FREQUENT:
        writer.write_batch(Batch(record.stamp.time_ns, record.stamp[1:], [(type(record), *record[1:])]))
    else:
        writer.write(record)
