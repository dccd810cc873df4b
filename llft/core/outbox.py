"""Where the protocols put what they want done; `step` hands it to the shell, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llft.core.effects import Effect, Multicast, Transmit, WriteRecord
from llft.core.standing import Standing
from llft.identifiers import BirthId, GroupId, ViewId
from llft.journal.record import Record, Stamp

_new_tuple: Final = tuple.__new__
"""Half the price of calling the named tuple, which would only pass its arguments on."""


class Outbox:
    __slots__ = ("_stamp", "effects", "journalling", "now_ns", "standing")

    def __init__(self, standing: Standing, *, journalling: bool) -> None:
        self.standing = standing
        self.journalling = journalling
        self.now_ns = 0
        self.effects: list[Effect] = []
        self._stamp = Stamp(-1, standing.group_id, standing.birth_id, standing.view)
        """Of the last record: those of one instant have the same."""

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        self.effects.append(_new_tuple(Multicast, (group_id, data)))

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        self.effects.append(Transmit(birth_id, data))

    def record(self, kind: Callable[..., Record], *fields: Any) -> None:
        """Journal a record of this kind: the stamp is added here."""
        if self.journalling:
            standing, stamp = self.standing, self._stamp
            if stamp.time_ns != self.now_ns or stamp.view is not standing.view:
                stamp = Stamp(self.now_ns, standing.group_id, standing.birth_id, standing.view)
                self._stamp = stamp
            self.effects.append(_new_tuple(WriteRecord, (kind(stamp, *fields),)))

    def record_of_view(self, view: ViewId, kind: Callable[..., Record], *fields: Any) -> None:
        """The same, of another view than the one that this replica is in by now."""
        if self.journalling:
            standing = self.standing
            stamp = Stamp(self.now_ns, standing.group_id, standing.birth_id, view)
            self.effects.append(WriteRecord(kind(stamp, *fields)))

    def drain(self) -> list[Effect]:
        effects = self.effects
        self.effects = []
        return effects
