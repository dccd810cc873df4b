"""Records of the frequent kinds on their way to the journal: rows, which become records when somebody asks.

A request makes a handful of records. To make each of them takes longer than to write it down, and nobody
looks at them but a checker: so the core hands on what they are made of, and the journal packs that.

    row      (kind, field, ...): the record's type, and its fields behind the stamp
             (Operated, number, template, entry): the entry's text is not written out yet; each %d of the
             template stands for the entry's next number, behind its kind
             (Operated, number, text): of an entry that has bytes in it
             (Readings, number, pick, thread, clock id, values): of clock readings that follow one another, of
             which the first has this number; each of them is an Operated and a ClockRead
             (Locks, number, template, entry, counts): the first of entries that follow one another and differ
             in counts alone, the fourth number; each of them is an Operated
    batch    rows that follow one another in one step of the core: they have one stamp

A row holds numbers, tuples of numbers, and short plain words: as much memory as its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from llft.identifiers import BirthId, ViewId
from llft.journal.record import ClockRead, Operated, Record, Stamp

Row = tuple[Any, ...]
Who = tuple[int, BirthId, ViewId]
"""A stamp without its time. As long as it says the same it is the same object, which is cheap to tell."""


class Readings:
    """The kind of a row that is many records."""


class Locks:
    """The same, of claims and releases of one mutex."""


class Batch(NamedTuple):
    time_ns: int
    who: Who
    rows: list[Row]

    def records(self) -> list[Record]:
        stamp = Stamp(self.time_ns, *self.who)
        made: list[Record] = []
        for row in one_by_one_of(self.rows):
            if row[0] is Readings:
                made += _readings(stamp, row)
            else:
                made.append(_record(stamp, row))
        return made


def one_by_one(write: Callable[[Record], None]) -> Callable[[Batch], None]:
    """For whoever takes records only."""

    def write_batch(batch: Batch) -> None:
        for record in batch.records():
            write(record)

    return write_batch


def one_by_one_of(rows: Iterable[Row]) -> Iterator[Row]:
    """The same rows, and instead of those of locks one for each of them."""
    for row in rows:
        if row[0] is not Locks:
            yield row
            continue
        _, number, template, entry, counts = row
        for count in counts:
            yield (Operated, number, template, (*entry[:4], count, *entry[5:]))
            number += 1


def _record(stamp: Stamp, row: Row) -> Record:
    kind = row[0]
    if kind is Operated and len(row) == 4:
        _, number, template, entry = row
        return Operated(stamp, number, fill(template, entry))
    made: Record = kind(stamp, *row[1:])
    return made


def _readings(stamp: Stamp, row: Row) -> list[Record]:
    _, number, pick, thread, clock_id, values = row
    made: list[Record] = []
    for value_ns in values:
        entry = f"time pick={pick} thread={thread} clock={clock_id} value={value_ns}"
        made += (Operated(stamp, number, entry), ClockRead(stamp, clock_id, value_ns, number))
        number += 1
    return made


def fill(template: str, entry: Row) -> str:
    """The template's text for this entry, which may have more to it than is told."""
    return template % entry[1 : 1 + template.count("%d")]
