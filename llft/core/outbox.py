"""Where the protocols put what they want done; `step` hands it to the shell, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llft.core.effects import Effect, Multicast, Transmit, WriteBatch, WriteRecord
from llft.core.standing import Standing
from llft.identifiers import BirthId, GroupId, ViewId
from llft.journal.batch import Readings, Row
from llft.journal.record import ClockRead, Operated, Record, Stamp
from llft.wire.order import GENERAL, SOCKET, TEMPLATES, TIME, Entry, counted_template, describe

_new_tuple: Final = tuple.__new__
"""Half the price of calling the named tuple, which would only pass its arguments on."""

_NONE: Final = -1


class Outbox:
    __slots__ = (
        "_batch_end",
        "_rows",
        "_stamp",
        "_view",
        "_who",
        "effects",
        "journalling",
        "now_ns",
        "standing",
    )

    def __init__(self, standing: Standing, *, journalling: bool) -> None:
        self.standing = standing
        self.journalling = journalling
        self.now_ns = 0
        self.effects: list[Effect] = []
        self._stamp = Stamp(-1, standing.group_id, standing.birth_id, standing.view)
        """Of the last record: those of one instant have the same."""
        self._view = standing.view
        # Not as the tuple that it is: compiled, that would be made into an object each time it is handed on.
        self._who: Any = (standing.group_id, standing.birth_id, self._view)
        self._rows: list[Row] = []
        self._batch_end = _NONE
        """How many effects there were when the last batch was added: if no more, rows go into that one."""

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        self.effects.append(_new_tuple(Multicast, (group_id, data)))

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        self.effects.append(Transmit(birth_id, data))

    def transmit_first(self, birth_id: BirthId, data: bytes) -> None:
        """Ahead of a message that this step has just multicast: an answer is waited for."""
        multicast = bool(self.effects) and type(self.effects[-1]) is Multicast
        self.effects.insert(len(self.effects) - multicast, Transmit(birth_id, data))

    def record(self, kind: Callable[..., Record], *fields: Any) -> None:
        """Journal a record of this kind: the stamp is added here."""
        if self.journalling:
            standing, stamp = self.standing, self._stamp
            if stamp.time_ns != self.now_ns or stamp.view is not standing.view:
                stamp = Stamp(self.now_ns, standing.group_id, standing.birth_id, standing.view)
                self._stamp = stamp
            self.effects.append(_new_tuple(WriteRecord, (kind(stamp, *fields),)))

    def note(self, row: Row) -> None:
        """Journal a record of a frequent kind: it is made when somebody wants it (`journal.batch`)."""
        if not self.journalling:
            return
        view = self.standing.view
        if len(self.effects) == self._batch_end and view is self._view:
            self._rows.append(row)
            return
        if view is not self._view:
            self._view = view
            self._who = (self.standing.group_id, self.standing.birth_id, view)
        self._rows = [row]
        self.effects.append(_new_tuple(WriteBatch, (self.now_ns, self._who, self._rows)))
        self._batch_end = len(self.effects)

    def note_entry(self, number: int, entry: Entry) -> None:
        """Journal that an operation was performed, whose entry has this number in the order log."""
        kind = entry[0]
        template = TEMPLATES.get(kind)
        if template is not None:
            self.note((Operated, number, template, entry))
        elif kind in (SOCKET, GENERAL):
            self.note((Operated, number, describe(entry)))
        else:
            self.record(Operated, number, describe(entry))
        if kind == TIME:
            self.note((ClockRead, entry[3], entry[4], number))

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

    def record_of_view(self, view: ViewId, kind: Callable[..., Record], *fields: Any) -> None:
        """The same, of another view than the one that this replica is in by now."""
        if self.journalling:
            standing = self.standing
            stamp = Stamp(self.now_ns, standing.group_id, standing.birth_id, view)
            self.effects.append(WriteRecord(kind(stamp, *fields)))

    def drain(self) -> list[Effect]:
        effects = self.effects
        self.effects = []
        self._batch_end = _NONE
        return effects
