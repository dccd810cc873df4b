"""Where the protocols put what they want done; `step` hands it to the shell, in order."""

from __future__ import annotations

from typing import Any, Final

from llft.core.effects import Effect, Multicast, Transmit, WriteBatch, WriteRecord
from llft.core.record_kinds import OPERATED
from llft.core.standing import Standing
from llft.identifiers import BirthId, GroupId, ViewId
from llft.journal.batch import Locks, Readings, Row
from llft.journal.record import Operated
from llft.wire.order import (
    GENERAL,
    PRIMARY_VIEW,
    SOCKET,
    TEMPLATES,
    TIME,
    Entry,
    counted_template,
    describe,
    view_told,
)

_new_tuple: Final = tuple.__new__
"""Half the price of calling the named tuple, which would only pass its arguments on."""

_NONE: Final = -1

STRIP_LIMIT: Final = 8192
"""Rows that wait there at most. More go the other way, on which the journal is asked to pack them."""


class Outbox:
    __slots__ = (
        "_batch_end",
        "_direct",
        "_noted_ns",
        "_rows",
        "_view",
        "_who",
        "effects",
        "journalling",
        "now_ns",
        "standing",
        "strip",
    )

    def __init__(self, standing: Standing, *, journalling: bool) -> None:
        self.standing = standing
        self.journalling = journalling
        self.now_ns = 0
        self.effects: list[Effect] = []
        self._view = standing.view
        # Not as the tuple that it is: compiled, that would be made into an object each time it is handed on.
        self._who: Any = (standing.group_id, standing.birth_id, self._view)
        self._rows: list[Row] = []
        self._batch_end = _NONE
        """How many effects there were when the last batch was added: if no more, rows go into that one."""
        self.strip: list[Any] | None = None
        self._direct: list[Any] | None = None
        """The strip, but not between a record that is an effect and the next `drain`: rows stay behind it."""
        self._noted_ns = _NONE
        """Of the rows that the strip has last; `_NONE`: it has to be told who they are of."""

    def note_into(self, strip: list[Any]) -> None:
        """The shell's journal takes rows at once, into this strip (`journal.packed`), and packs it before it
        writes anything else: an effect for each batch takes longer than to write it down."""
        self.strip = self._direct = strip
        self._noted_ns = _NONE

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        self.effects.append(_new_tuple(Multicast, (group_id, data)))

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        self.effects.append(Transmit(birth_id, data))

    def transmit_first(self, birth_id: BirthId, data: bytes) -> None:
        """Ahead of a message that this step has just multicast: an answer is waited for."""
        multicast = bool(self.effects) and type(self.effects[-1]) is Multicast
        self.effects.insert(len(self.effects) - multicast, Transmit(birth_id, data))

    def record(self, kind: Any, *fields: Any) -> None:
        """Journal a record of this kind, all its fields but the stamp, which is added here."""
        if self.journalling:
            standing = self.standing
            group_id, birth_id, view = standing.group_id, standing.birth_id, standing.view
            self._direct = None
            self.effects.append(WriteRecord(None, kind, self.now_ns, group_id, birth_id, view, fields))

    def note(self, row: Row) -> None:
        """Journal a record of a frequent kind: it is made when somebody wants it (`journal.batch`)."""
        if not self.journalling:
            return
        view, strip = self.standing.view, self._direct
        if view is not self._view:
            self._view = view
            self._who = (self.standing.group_id, self.standing.birth_id, view)
            self._batch_end = self._noted_ns = _NONE
        if strip is not None and len(strip) < STRIP_LIMIT:
            if self._noted_ns != self.now_ns or not strip:
                self._noted_ns = self.now_ns
                strip.append(self._who)
                strip.append(self.now_ns)
            strip.append(row)
            return
        self._direct = None
        if len(self.effects) == self._batch_end:
            self._rows.append(row)
            return
        self._rows = [row]
        self.effects.append(_new_tuple(WriteBatch, (self.now_ns, self._who, self._rows)))
        self._batch_end = len(self.effects)

    def note_entry(self, number: int, entry: Entry) -> None:
        """Journal that an operation was performed, whose entry has this number in the order log."""
        kind = entry[0]
        template = TEMPLATES.get(kind)
        if kind == TIME:
            self.note_readings(number, entry[1], entry[2], entry[3], [entry[4]])
        elif template is not None:
            self.note((OPERATED, number, template, entry))
        elif kind in (SOCKET, GENERAL):
            self.note((Operated, number, describe(entry)))
        elif kind == PRIMARY_VIEW:
            self.note((OPERATED, number, *view_told(entry)))
        else:
            self.record(Operated, number, describe(entry))

    def note_readings(self, first: int, pick: int, thread: int, clock_id: int, values: list[int]) -> None:
        """The same of clock readings that follow one another, of which the first has this number."""
        self.note((Readings, first, pick, thread, clock_id, values))

    def note_counted(self, number: int, first: Entry, data: list[bytes]) -> None:
        """The same of entries that differ from the first in counts and data: all of the data short."""
        kind, pick, thread, identifier, count, _ = first
        text, template = b"", ""
        for each in data:
            if each != text or not template:
                text, template = each, counted_template(kind, each)
            self.note((Operated, number, template, (kind, pick, thread, identifier, count)))
            number += 1
            count += 1

    def note_locks(self, number: int, first: Entry, counts: list[int]) -> None:
        """The same of entries of a mutex, which differ from the first in counts."""
        self.note((Locks, number, TEMPLATES[first[0]], first, counts))

    def record_of_view(self, view: ViewId, kind: Any, *fields: Any) -> None:
        """The same, of another view than the one that this replica is in by now."""
        if self.journalling:
            group_id, birth_id = self.standing.group_id, self.standing.birth_id
            self._direct = None
            self.effects.append(WriteRecord(None, kind, self.now_ns, group_id, birth_id, view, fields))

    def drain(self) -> list[Effect]:
        effects = self.effects
        self.effects = []
        self._batch_end = self._noted_ns = _NONE
        self._direct = self.strip
        return effects
