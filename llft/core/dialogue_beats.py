"""Heartbeats in a dialogue (D-77): this member's own, and at a primary those of its backups.

A dialogue that ended for every beat would end a hundred times a second. So what makes one is lent,
and what is heard in one: how far its sender is, and that it lives. What all members have is forgotten there,
too (`llft/dialogue/forgetting.c`). A backup hears its primary as `dialogue_fellow` has it.

A primary's beat tells those who wait for the output commit what is committed (`core.asking`): so does one
in a dialogue where it is asked there (`core.dialogue_fellow`); where it is not, and somebody waits, none is
lent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from llft.config import BACKUP_INTERVALS
from llft.core.dialogue_fellow import Fellow, sender_of
from llft.identifiers import BirthId, GroupId
from llft.wire.codec import decode_body, encode_body
from llft.wire.header import pack_prefix
from llft.wire.messages import MessageFlag, MessageType

if TYPE_CHECKING:
    from llft.core.replica import Replica

MEMBERS_MAX: Final = 16
"""As many as a dialogue has room for."""


class LentMember(NamedTuple):
    """A backup, as its primary knows it."""

    birth_id: BirthId
    sender: bytes
    """As a Heartbeat has it."""
    watermark: int
    heard_ns: int
    timeout_ns: int


class Beats(NamedTuple):
    group_id: GroupId
    to: BirthId | None
    """None: to the group."""
    due_ns: int
    interval_ns: int
    own_watermark: int
    prefix: bytes
    body: bytes
    members: list[LentMember]
    announced: int
    """So much of what is committed was told to those who wait."""


class MadeMember(NamedTuple):
    place: int
    heard_ns: int
    beat: bytes
    """Its last one."""
    taken: list[tuple[int, int]]
    """Its datagrams to the group, and those to this process, as of a remote group's primary."""
    taken_alone: list[tuple[int, int]]


class MadeBeats(NamedTuple):
    beaten_ns: int
    """0: not at all."""
    due_ns: int
    beat: int
    members: list[MadeMember]
    announced: int


def made_beats(told: tuple[int, int, int, list[Any], int] | None) -> MadeBeats | None:
    """Of what C tells."""
    return None if told is None else MadeBeats(*told[:3], [MadeMember(*each) for each in told[3]], told[4])


class BeatLender:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._members: list[BirthId] = []
        """Those that are lent."""

    def lend(self, fellow: Fellow | None, groups: list[GroupId]) -> Beats | None:
        """`groups`: those that it is lent with."""
        replica = self._replica
        intra, live = replica.intra, replica.live
        if not self._may_beat() or not (self._tells_all(fellow, groups) if live else fellow):
            return None
        self._members = list(replica.messaging.watermarks.of_member) if live else []
        interval_ns = replica.config.timeouts.heartbeat_interval_ns
        return Beats(
            replica.standing.group_id,
            None if live else replica.standing.view.birth_id,
            intra.heartbeat_ns,
            interval_ns if live else interval_ns * BACKUP_INTERVALS,
            replica.own_watermark(),
            pack_prefix(intra.header(MessageType.HEARTBEAT, MessageFlag.NONE)),
            encode_body(intra.heartbeat_body(0)),
            [self._member(backup) for backup in self._members],
            replica.asking.announced,
        )

    def _tells_all(self, fellow: Fellow | None, groups: list[GroupId]) -> bool:
        """At a primary: nobody waits whom a beat in the dialogue would not tell."""
        held = self._replica.messaging.lane.held
        if fellow is None:
            return self._replica.asking.is_announced and not any(held[group_id].waits for group_id in groups)
        return all(group_id in groups for group_id, of_group in held.items() if of_group.waits)

    def _may_beat(self) -> bool:
        """What a beat says is what C can say."""
        replica = self._replica
        members, backups = replica.messaging.watermarks.of_member, replica.standing.backups
        if replica.intra.lonely or replica.reticence.heartbeat_flags():
            return False
        if not replica.live:
            return True
        return len(backups) <= MEMBERS_MAX and set(members) == set(backups)

    def _member(self, backup: BirthId) -> LentMember:
        detector = self._replica.detector
        heard_ns = detector.heard_ns.get(backup, 0)
        deadline_ns = detector.backup_deadline(backup, self._replica.standing.rank_of(backup))
        watermark = self._replica.messaging.watermarks.of_member[backup]
        return LentMember(backup, sender_of(backup), watermark, heard_ns, deadline_ns - heard_ns)

    def take(self, made: MadeBeats) -> None:
        """When all else is taken."""
        replica, intra = self._replica, self._replica.intra
        for each in made.members:
            body: Any = decode_body(MessageType.HEARTBEAT, each.beat)
            self._hear(self._members[each.place], each.heard_ns, body)
        if made.beaten_ns:
            intra.beaten_ns, intra.heartbeat_ns = made.beaten_ns, made.due_ns
        if replica.live:
            intra.beat = made.beat
            replica.asking.announced = max(replica.asking.announced, made.announced)
            replica.update_watermarks()

    def _hear(self, backup: BirthId, heard_ns: int, body: Any) -> None:
        """What `IntraGroup.on_heartbeat` makes of its last one."""
        replica = self._replica
        replica.detector.hear(backup, heard_ns)
        replica.reticence.on_echo(body.echo)
        replica.timers.hear_majority(heard_ns)
        replica.messaging.watermarks.report(backup, body.watermark, body.executed, has_past=True)
        replica.asking.durability.report(backup, MessageFlag.NONE, body.executed)
