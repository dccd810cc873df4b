"""The records of one process, in order, as rows: their fields, and what is derived from their places.

A `ProcessState` is all that must be known of what came before, so that reading can go on where it
stopped, in another run: it goes through JSON. Rows are gathered kind by kind into Arrow batches.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from llft.journal.packed import START
from llft.journal.reader import parse_record
from llft.journal.record import (
    Called,
    ClockRead,
    Delivered,
    Diverged,
    Gap,
    MembershipChanged,
    Operated,
    Record,
    RoleChanged,
    Sent,
    StateApplied,
    StateTaken,
    Superseded,
    ViewInstalled,
)
from llft.journal.unpack_rows import unpack

UNKNOWN = None
_LONG_NUMBER = re.compile(rb"\d{19}")
JOINING = "joining"
MILESTONES = (Operated, ViewInstalled, StateApplied)

RARE = (RoleChanged, ViewInstalled, MembershipChanged, Superseded, StateTaken, StateApplied, Diverged, Gap)
"""Kinds of which there are few. Rare is also an operation whose number does not follow the one before, and
the first record of a life, so that each has one; but not what clients write, who have no life in a
group."""

Derived = tuple[int, int, int, int | None, int | None, int | None, bool]


@dataclass(slots=True)
class ProcessState:
    """What is known of a process up to a point of its journal."""

    world: int = 0
    process: int = 0
    group_id: int | None = None
    wall_offset_ns: int = 0
    fresh: bool = True
    """Nothing was read of this life yet."""
    segment: int = -1
    """The last one that was read of."""
    segment_ns: int = 0
    """When its first record was written."""
    segment_records: int = 0
    """That were read of it."""
    earlier: dict[str, int] = field(default_factory=dict)
    """The same of those before it, until the journal tells that one was removed."""
    life: int = 0
    milestones: int = 0
    performed: int | None = 0
    clocks: dict[str, int] = field(default_factory=dict)
    delivered: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    forgotten: bool = False
    """A gap came, or a state: what is not in the three above is not known, rather than 0."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ProcessState:
        return cls(**json.loads(text))

    def forget(self) -> None:
        """Records were lost here."""
        self.performed = UNKNOWN
        self.clocks, self.delivered, self.sent = {}, {}, {}
        self.forgotten = True

    def begin_segment(self, number: int) -> None:
        """Or go on with it."""
        if number != self.segment:
            if self.segment_records:
                self.earlier[str(self.segment_ns)] = self.segment_records
            self.segment, self.segment_records = number, 0

    def _was_read(self, gap: Gap) -> bool:
        """Whether it tells, at the beginning of a segment, of one that was removed when all of it had been
        read (D-22): then nothing is missing."""
        began = str(gap.stamp.time_ns)
        if self.segment_records or self.earlier.get(began) != gap.lost_count:
            return False
        del self.earlier[began]
        return True

    def derive(self, record: Record) -> Derived:
        """The derived columns of the next record (`schema.DERIVED`), and takes note of it."""
        stamp = record.stamp
        content = content_of(record)
        if self.group_id is None:
            self.group_id = stamp.group_id
            self.process = process_number(self.world, stamp.group_id, stamp.birth_id)
            self.wall_offset_ns = stamp.birth_id.start_ns - stamp.time_ns
        if type(record) is RoleChanged and record.role == JOINING and self.milestones:
            self._begin_life()
        performed = self.performed
        previous = self._previous(record)
        if type(record) in MILESTONES:
            self.milestones += 1
        harmless = type(record) is Gap and self._was_read(record)
        rare = (type(record) in RARE and not harmless) or (self.fresh and type(record) is not Called)
        self.fresh = False
        if type(record) is not Gap:
            self.segment_ns = self.segment_ns if self.segment_records else stamp.time_ns
            self.segment_records += 1
        if type(record) is Operated:
            rare = rare or performed is None or record.order_seq_num != performed + 1
            self.performed = record.order_seq_num
        elif type(record) is Gap and not harmless:
            self.forget()
        elif type(record) is StateApplied:
            self.forgotten = True  # the state has the connections' past in it
        wall_ns = stamp.time_ns + self.wall_offset_ns
        return self.process, self.life, wall_ns, performed, previous, content, rare

    def _begin_life(self) -> None:
        self.life += 1
        self.fresh = True
        self.milestones = 0
        self.performed = 0
        self.clocks, self.delivered, self.sent = {}, {}, {}
        self.forgotten = False

    def _previous(self, record: Record) -> int | None:
        if type(record) is ClockRead:
            return self._replace(self.clocks, str(record.clock_id), record.value_ns)
        if type(record) is Delivered:
            return self._replace(self.delivered, str(record.connection), record.stream_offset)
        if type(record) is Sent:
            return self._replace(self.sent, str(record.connection), record.position)
        return None

    def _replace(self, latest: dict[str, int], key: str, value: int) -> int | None:
        before = latest.get(key, UNKNOWN if self.forgotten else 0)
        latest[key] = value
        return before


def process_number(world: int, group_id: int, birth_id: Sequence[int]) -> int:
    return _digest(struct.pack("<5q", world, group_id, *birth_id))


def content_of(record: Record) -> int | None:
    """What the replicas must have in common, as 64 bits; None where nothing is to be compared."""
    if type(record) is Operated:
        return content_of_entry(record.entry.encode("utf-8", "surrogatepass"))
    if type(record) is Sent:
        return content_of_sent(record.connection, *record[3:])
    if type(record) is ClockRead:
        return content_of_clock(record.clock_id, record.value_ns)
    return None


def content_of_sent(connection: Sequence[int], *rest: int) -> int:
    """`rest`: position, timestamp, size, digest and order number."""
    return _digest(struct.pack("<8q", *connection, *rest))


def content_of_clock(clock_id: int, value_ns: int) -> int:
    return _digest(struct.pack("<qq", clock_id, value_ns))


def content_of_entry(entry: bytes) -> int:
    """`entry`: in UTF-8."""
    return _digest(entry)


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


def records_of(payload: bytes) -> list[Record]:
    """ValueError, or RecursionError, for what is none of this schema."""
    return unpack(payload) if payload.startswith(START) else [parse(payload)]


def parse(payload: bytes) -> Record:
    """ValueError for what is no record of this schema."""
    record = parse_record(payload)
    if _LONG_NUMBER.search(payload):
        _check_range(record)
    return record


def _check_range(value: Any) -> None:
    """A column has 64 bits with a sign."""
    if isinstance(value, tuple):
        for part in value:
            _check_range(part)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} has more than 64 bits")


Row = tuple[Any, ...]


def flatten(record: Record) -> Row:
    """The record's fields with those of its stamp in front. Named tuples are structs to Arrow as they are."""
    return (*record.stamp, *record[1:])
