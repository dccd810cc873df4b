"""What a pruned branch excuses, of a few connections of whole worlds: `excuses`, row by row.

Asked only about connections that went astray (`clearing`), which are few.
"""

from __future__ import annotations

from dataclasses import dataclass

from llft.journal.record import ConnectionEnded, Delivered, Sent
from llft.pipeline.audit.clearing import Group, Groups
from llft.pipeline.audit.lives import NO_LIMIT, Life
from llft.pipeline.audit.whole import Connection, Row, Whole

KINDS = (Sent, Delivered, ConnectionEnded)
NEVER_NS = 1 << 62


@dataclass(slots=True)
class End:
    """What is known of one end of a connection."""

    fate: str = ""
    fate_ns: int = NEVER_NS
    known: bool = False
    met_astray: bool = False
    strayed: bool = False

    def see(self, row: Row, life: Life) -> None:
        record = row.record
        is_ended = type(record) is ConnectionEnded
        survives = _survives(row, life.limit)
        by_other = record.stamp.view.birth_id != record.stamp.birth_id
        if survives and is_ended and not by_other and row.wall_ns < self.fate_ns:
            self.fate, self.fate_ns = record.how, row.wall_ns
        self.known |= survives and not (is_ended and by_other)
        self.met_astray |= life.split_off and not survives
        if not survives and type(record) is Sent:
            self.strayed |= record.size > 0 or (life.split_off and record.position > 1)


def _survives(row: Row, limit: int) -> bool:
    """A delivery that follows the last surviving operation may belong to it or to the next."""
    number = row.record.order_seq_num if type(row.record) is Sent else row.performed
    if number is None:
        return limit == NO_LIMIT
    return bool(number < (limit - 1 if type(row.record) is Delivered else limit))


def excused(whole: Whole, groups: Groups, connections: set[Connection]) -> set[Connection]:
    """Those of these that are; their groups have one history each."""
    worlds = {one[0] for one in connections}
    near = [number for number, world in enumerate(whole.worlds) if world in worlds]
    ends: dict[Connection, dict[int, End]] = {one: {} for one in connections}
    for kind in KINDS:
        for row in whole.rows(kind.__name__, near):
            known = ends.get((whole.worlds[row.life], *row.record.connection))
            if known is not None:
                end = known.setdefault(row.record.stamp.group_id, End())
                end.see(row, whole.lives[row.life])
    return {one for one, known in ends.items() if _is_excused(one, known, groups)}


def _is_excused(connection: Connection, ends: dict[int, End], groups: Groups) -> bool:
    world, client_id, server_id, _ = connection
    client, server = ends.get(client_id, End()), ends.get(server_id, End())
    client_split, server_split = (groups.get((world, one), Group()).split for one in (client_id, server_id))
    if "reset" in (client.fate, server.fate):
        return True
    closed = [one.fate == "closed" for one in (client, server)]
    if closed[0] and not server.known and server.met_astray and server_split:
        return True
    if closed[1] and not client.known and client.met_astray and client_split:
        return True
    return all(closed) and client.strayed and client_split and server.strayed and server_split
