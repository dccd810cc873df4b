"""Records of the frequent kinds on their way to the journal: rows, which become records when somebody asks.

A request makes a handful of records. To make each of them takes longer than to write it down, and nobody
looks at them but a checker: so the core hands on what they are made of, and the journal frames that.

    row      (kind, field, ...): the record's type, and its fields behind the stamp
             (Operated, number, template, entry): the entry's text is not written out yet; each %d of the
             template stands for the entry's next number, behind its kind
             (Operated, number, text): of an entry that has bytes in it
    batch    rows that follow one another in one step of the core: they have one stamp

A row holds numbers, tuples of numbers, and short plain words: as much memory as its record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llft.identifiers import BirthId, ViewId
from llft.journal.record import Operated, Record, Stamp

Row = tuple[Any, ...]
Who = tuple[int, BirthId, ViewId]
"""A stamp without its time. As long as it says the same it is the same object, which is cheap to tell."""


class Batch(NamedTuple):
    time_ns: int
    who: Who
    rows: list[Row]

    def records(self) -> list[Record]:
        stamp = Stamp(self.time_ns, *self.who)
        return [_record(stamp, row) for row in self.rows]


def one_by_one(write: Callable[[Record], None]) -> Callable[[Batch], None]:
    """For whoever takes records only."""

    def write_batch(batch: Batch) -> None:
        for record in batch.records():
            write(record)

    return write_batch


def _record(stamp: Stamp, row: Row) -> Record:
    kind = row[0]
    if kind is Operated and len(row) == 4:
        _, number, template, entry = row
        return Operated(stamp, number, fill(template, entry))
    made: Record = kind(stamp, *row[1:])
    return made


def fill(template: str, entry: Row) -> str:
    """The template's text for this entry, which may have more to it than is told."""
    return template % entry[1 : 1 + template.count("%d")]
