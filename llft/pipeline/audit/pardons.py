"""What a pruned branch excuses, of a few connections of whole worlds: `excuses`, row by row.

Asked only about connections that went astray (`clearing`), which are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llft.pipeline.audit.lives import NO_LIMIT

if TYPE_CHECKING:
    from llft.pipeline.audit.clearing import Lives, Read

KINDS = ("Sent", "Delivered", "ConnectionEnded")
OWNER = ("world", "connection", "group_id", "process", "life", "kind", "birth_id", "view")
READ = (*OWNER, "how", "wall_ns", "size", "position", "order_seq_num", "performed")
NEVER_NS = 1 << 62

Connection = tuple[int, ...]
"""World and connection."""


@dataclass(slots=True)
class End:
    """What is known of one end of a connection."""

    fate: str = ""
    fate_ns: int = NEVER_NS
    known: bool = False
    met_astray: bool = False
    strayed: bool = False

    def see(self, row: dict[str, Any], *, limit: int, pruned: bool) -> None:
        kind, is_ended = row["kind"], row["kind"] == "ConnectionEnded"
        survives = _survives(row, limit)
        by_other = row["view"]["birth_id"] != row["birth_id"]
        if survives and is_ended and not by_other and row["wall_ns"] < self.fate_ns:
            self.fate, self.fate_ns = row["how"], row["wall_ns"]
        self.known |= survives and not (is_ended and by_other)
        self.met_astray |= pruned and not survives
        if not survives and kind == "Sent":
            self.strayed |= row["size"] > 0 or (pruned and row["position"] > 1)


def _survives(row: dict[str, Any], limit: int) -> bool:
    """A delivery that follows the last surviving operation may belong to it or to the next."""
    number = row["performed"] if row["order_seq_num"] is None else row["order_seq_num"]
    if number is None:
        return limit == NO_LIMIT
    return bool(number < (limit - 1 if row["kind"] == "Delivered" else limit))


def excused(read: Read, lives: Lives, connections: set[Connection]) -> set[Connection]:
    """Those of these that are; their groups have one history each."""
    import pyarrow as pa
    from pyarrow import compute

    worlds = pa.array(sorted({one[0] for one in connections}), pa.int64())
    ends: dict[Connection, dict[int, End]] = {one: {} for one in connections}
    for kind in KINDS:
        rows = read(kind, READ)
        for row in rows.filter(compute.is_in(rows["world"], value_set=worlds)).to_pylist():
            known = ends.get((row["world"], *row["connection"].values()))
            if known is not None:
                whose = row["process"], row["life"]
                end = known.setdefault(row["group_id"], End())
                end.see(row, limit=lives.limits[whose], pruned=whose in lives.pruned)
    return {one for one, known in ends.items() if _is_excused(one, known, lives)}


def _is_excused(connection: Connection, ends: dict[int, End], lives: Lives) -> bool:
    world, client_id, server_id, _ = connection
    client, server = ends.get(client_id, End()), ends.get(server_id, End())
    groups = (lives.groups.get((world, one)) for one in (client_id, server_id))
    client_pruned, server_pruned = (group is not None and group.pruned for group in groups)
    if "reset" in (client.fate, server.fate):
        return True
    closed = [one.fate == "closed" for one in (client, server)]
    if closed[0] and not server.known and server.met_astray and server_pruned:
        return True
    if closed[1] and not client.known and client.met_astray and client_pruned:
        return True
    return all(closed) and client.strayed and client_pruned and server.strayed and server_pruned
