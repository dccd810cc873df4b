"""The output commit in a dialogue (D-74, D-75): the member of our own group that is asked, or that asks.

At a primary it is the backup whose holding commits, at a backup the primary, whose Heartbeats are heard, too.
Lent is what `core.asking` and `core.holding` keep of the questions; taken back is what has become of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from llft.core.messaging.connection import Connection
from llft.identifiers import NO_BIRTH, BirthId, GroupId
from llft.wire.codec import decode_body, encode_body
from llft.wire.header import PREFIX_BYTES, pack_prefix
from llft.wire.messages import MessageFlag, MessageType, StateAckBody

if TYPE_CHECKING:
    from llft.core.replica import Replica

_BIRTH_BYTES = 16


class Fellow(NamedTuple):
    birth_id: BirthId
    group_id: GroupId
    in_prefix: bytes
    """Of what comes from it: at a primary a Held, at a backup a question."""
    out_prefix: bytes
    beat_prefix: bytes
    """At a backup: of the primary's Heartbeats."""
    sender: bytes
    """Who says that it holds, as a Held has it."""
    numbers: tuple[int, ...]
    before: bytes
    """At a primary: the order log before what is lent of it."""
    waiting: list[tuple[int, bytes]]
    """Places of groups that wait, and the prefix of a Held to them."""
    ordered: tuple[int, ...]
    """At a backup: bytes of each connection that the log has read, as far as it is read itself."""


class MadeFellow(NamedTuple):
    held: int
    end: int
    asked_ns: int
    wanted: bool
    has_asked: bool
    told_ns: int
    told_end: int
    wanted_end: int
    taken: list[tuple[int, int]]
    """Its datagrams to the group, and those to this process, as of a remote group's primary."""
    taken_alone: list[tuple[int, int]]
    beats: list[int]
    """At a backup: when Heartbeats of the primary came, the body of the last one, and what they say of the
    group's watermark."""
    beat: bytes
    beat_watermark: int


def sender_of(birth_id: BirthId) -> bytes:
    """As bodies of messages begin with it."""
    return encode_body(StateAckBody(birth_id, 0))[:_BIRTH_BYTES]


class Fellows:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._messaging = replica.messaging

    def may_ask(self) -> bool:
        """At a primary: what is said is committed by what one backup says itself."""
        asking, messaging = self._replica.asking, self._messaging
        level = messaging.config.output_commit_level
        if level == 0 or asking.durability.wanted or messaging.waiting_for_all:
            return False
        if next(iter(messaging.indexes.held_back), None) is not None:
            return False  # they may go on with the next answer
        one = asking.who_is_enough()
        return one != NO_BIRTH and (not asking.under_way or asking.asked_of == one)

    def lend(self, groups: list[GroupId], connections: list[Connection], *, may_ask: bool) -> Fellow | None:
        if self._replica.live:
            return self._asked(groups) if may_ask else None
        return self._asking(groups, connections)

    def _asked(self, groups: list[GroupId]) -> Fellow:
        """At a primary."""
        replica, messaging, asking = self._replica, self._messaging, self._replica.asking
        orders, known = messaging.lane.orders, messaging.watermarks.of_member
        one = asking.lent_of = asking.who_is_enough()
        others = [offset for backup, offset in known.items() if backup != one]
        behind = min(others, default=orders.end)
        first = max(min(known[one], max(behind, asking.told_end), orders.unreflected), orders.start)
        numbers = (
            *(messaging.fragment_room, known[one], asking.end, asking.asked_ns, asking.patience_ns),
            *(int(messaging.waiting_for_backups), int(bool(others)), behind),
            *(asking.told_ns, asking.told_end, asking.telling_ns, first, 0),
        )
        held = messaging.lane.held
        return Fellow(
            one,
            replica.standing.group_id,
            pack_prefix(asking.holding.header()),
            pack_prefix(replica.intra.header(MessageType.KEEP_ALIVE, MessageFlag.NONE)),
            bytes(PREFIX_BYTES),
            sender_of(one),
            numbers,
            orders.slice(first, orders.unreflected),
            [(place, bytes(PREFIX_BYTES)) for place, group_id in enumerate(groups) if held[group_id].waits],
            (),
        )

    def _asking(self, groups: list[GroupId], connections: list[Connection]) -> Fellow | None:
        """At a backup. None: questions are the core's."""
        replica, standing = self._replica, self._replica.standing
        holding = replica.asking.holding
        waiting = holding.who_waits()
        if not standing.has_past or any(group_id not in groups for group_id in waiting):
            return None
        return Fellow(
            standing.view.birth_id,
            standing.group_id,
            pack_prefix(replica.intra.header(MessageType.KEEP_ALIVE, MessageFlag.NONE)),
            pack_prefix(holding.header()),
            pack_prefix(replica.intra.header(MessageType.HEARTBEAT, MessageFlag.NONE)),
            sender_of(standing.birth_id),
            (0,) * 12 + (int(standing.rank != 2),),
            b"",
            [(groups.index(group_id), pack_prefix(holding.header_to(group_id))) for group_id in waiting],
            tuple([connection.ordered_bytes for connection in connections]),
        )

    def take(self, made: MadeFellow) -> None:
        replica, asking = self._replica, self._replica.asking
        if not replica.live:
            asking.holding.wanted_end = made.wanted_end
            replica.intra.asked_ns = max(replica.intra.asked_ns, made.asked_ns)
            replica.intra.passed_over_ns = max(replica.intra.passed_over_ns, made.told_ns)
            if made.beats:
                body: Any = decode_body(MessageType.HEARTBEAT, made.beat)
                replica.intra.on_beats(made.beats, made.beat_watermark, body)
            return
        one = asking.lent_of
        self._messaging.watermarks.hold(one, made.held)
        self._messaging.waiting_for_backups = made.wanted
        asking.told_ns, asking.told_end = made.told_ns, made.told_end
        if made.has_asked:
            asking.end, asking.asked_ns, asking.asked_of = made.end, made.asked_ns, one
            asking.alone = one if len(self._messaging.watermarks.of_member) > 1 else NO_BIRTH
