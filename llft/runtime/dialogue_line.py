"""What a dialogue (`runtime.dialogues`) needs of a transport, for C to hear and to send."""

from __future__ import annotations

from typing import Any, Protocol

from llft.core.dialogue_fellow import Fellow
from llft.identifiers import BirthId, GroupId
from llft.runtime.transport.envelope import Channel


class Line(Protocol):
    """Of a transport: what C needs of it to speak with the primary of a group."""

    def line(self, birth_id: BirthId, group_id: GroupId) -> tuple[Any, int, int, bytes, Any] | None:
        """Its datagrams, the descriptor that hears, the newest number of that process, its birth as envelopes
        have it, and where the group is. None: it was not heard yet."""

    @property
    def sending_fileno(self) -> int:
        """What else hears: that which is for this process alone."""

    def fellow_line(self, birth_id: BirthId, group_id: GroupId) -> tuple[bytes, int, int, Any, Any] | None:
        """Of a process of our own group: its birth, its newest numbers to the group and to this process,
        where it is, and where the group is. None: it was not heard yet."""

    def heard_on_line(self, birth_id: BirthId, runs: list[tuple[int, int]], channel: Channel) -> None:
        """Datagrams of that process with these numbers were taken."""

    def open_all(self, taken: list[Any]) -> list[bytes]:
        """Datagrams that were taken, but not looked at."""


def with_line(fellow: Fellow, transport: Line) -> tuple[Any, ...] | None:
    line = transport.fellow_line(fellow.birth_id, fellow.group_id)
    return None if line is None else (*line, *fellow[2:])
