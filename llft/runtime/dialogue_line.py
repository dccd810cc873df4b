"""What a dialogue (`runtime.dialogues`) needs of a transport, for C to hear and to send."""

from __future__ import annotations

from typing import Any, Protocol

from llft.core.dialogue_beats import Beats, MadeMember
from llft.core.dialogue_fellow import Fellow, MadeFellow
from llft.core.dialogue_made import Made
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

    def group_line(self, group_id: GroupId) -> Any:
        """Where all processes of a group are. None: they are too many."""

    def heard_on_line(self, birth_id: BirthId, runs: list[tuple[int, int]], channel: Channel) -> None:
        """Datagrams of that process with these numbers were taken."""

    def open_all(self, taken: list[Any]) -> list[bytes]:
        """Datagrams that were taken, but not looked at."""


def with_line(fellow: Fellow, transport: Line) -> tuple[Any, ...] | None:
    line = transport.fellow_line(fellow.birth_id, fellow.group_id)
    return None if line is None else (*line, *fellow[2:])


def beating_on(beats: Beats, transport: Line, life: tuple[int, int]) -> tuple[Any, ...] | None:
    """`life`: where the pulse looks when this process has beaten last, and how much longer it waits than a
    primary's. None: somebody was not heard yet."""
    if beats.to is None:
        to = transport.group_line(beats.group_id)
    else:
        line = transport.fellow_line(beats.to, beats.group_id)
        to = None if line is None else line[3]
    members = []
    for member in beats.members:
        line = transport.fellow_line(member.birth_id, beats.group_id)
        if line is None:
            return None
        members.append((line[0], member.sender, line[1], line[2], *member[2:]))
    return None if to is None else (*beats[2:7], to, members, *life, beats.announced)


def note_taken(
    transport: Line, made: Made, births: list[BirthId], fellow: BirthId, members: list[BirthId]
) -> None:
    """Which datagrams C has taken: of the primaries at the other ends, of who is asked or asks, and of those
    whose beats it hears."""
    for remote in made.remotes:
        transport.heard_on_line(births[remote.place], remote.taken, Channel.TO_GROUP)
    heard: list[tuple[BirthId, MadeFellow | MadeMember]] = []
    heard += [] if made.fellow is None else [(fellow, made.fellow)]
    heard += [] if made.beats is None else [(members[each.place], each) for each in made.beats.members]
    for birth_id, each in heard:
        transport.heard_on_line(birth_id, each.taken, Channel.TO_GROUP)
        transport.heard_on_line(birth_id, each.taken_alone, Channel.TO_PROCESS)
