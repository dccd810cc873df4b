"""Which connections of whole worlds may have something to be found: all rows are here, so no sum is needed.

Says of each connection what `delivery` and `watermark` would find, without the words for it: nothing may be
found on one that is cleared here. In doubt it is not: groups with several histories, and replicas that wrote
other messages under one order number, are left to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from llft.pipeline.audit.lives import NO_LIMIT, Life
from llft.pipeline.audit.prints import Numbers, run_starts
from llft.pipeline.audit.streams import Meter, measured
from llft.pipeline.audit.whole import UNKNOWN, Columns, Connection, Limits, Whole

SENT = ("order_seq_num", "position", "timestamp", "size", "digest")
OFFSET_BITS = 40
"""A direction and an offset are one number; a stream of a terabyte is not cleared."""
IS_SENT = 1
"""Of what was collected: by who had sent it."""


@dataclass(slots=True)
class Group:
    """What the lives of one say together."""

    end_ns: int = 0
    partial: bool = False
    is_one: bool = True
    """It has one history."""
    split: bool = False
    """Somebody did behind a partition what the surviving branch does not have."""

    def see(self, life: Life) -> None:
        self.end_ns = max(self.end_ns, life.last_wall_ns)
        self.partial |= life.partial
        self.is_one &= life.epoch == 0
        self.split |= life.split_off and life.last_number >= life.limit


Groups = dict[tuple[int, int], Group]
"""By world and group."""


def groups_of(whole: Whole) -> Groups:
    groups: Groups = {}
    for world, life in zip(whole.worlds, whole.lives, strict=True):
        groups.setdefault((world, life.group_id), Group()).see(life)
    return groups


@dataclass(slots=True)
class Doubts:
    wrong: set[Connection] = field(default_factory=set)
    astray: set[Connection] = field(default_factory=set)
    """Read what was not written, or collected what was not read: a pruned branch may be the excuse."""


def doubts(whole: Whole, limits: Limits, groups: Groups) -> Doubts:
    sent, delivered, collected = map(whole.columns, ("Sent", "Delivered", "Collected"))
    board = _Board(whole.connections, limits, groups)
    for rows in (sent, delivered, collected):
        board.look_at_ends(rows)
    written = board.look_at_sent(sent)
    reached = board.look_at_delivered(delivered, written)
    board.look_at_collected(collected, written, reached)
    return board.doubts()


@dataclass(frozen=True, slots=True)
class _Written:
    """Every message that survives, once; by direction and order number."""

    direction: Numbers
    timestamp: Numbers
    end: Numbers
    plain_digest: Numbers
    place: Numbers
    """Direction and offset of its end, as one number."""
    size: Numbers
    """Of each direction: all that was written."""


class _Board:
    """A direction is twice the number of the connection, and one more if the server writes."""

    def __init__(self, connections: Sequence[Connection], limits: Limits, groups: Groups) -> None:
        self._connections = connections
        self._limits = limits
        count = len(connections)
        self._wrong, self._astray = np.zeros(count, bool), np.zeros(count, bool)
        self._end_ns = np.zeros(2 * count, np.int64)
        """Of the group at the writing end."""
        self._is_told = np.zeros(2 * count, bool)
        """All journals of that group are here."""
        self._client = np.array([client for _, client, _, _ in connections], np.int64)
        self._server = np.array([server for _, _, server, _ in connections], np.int64)
        for number, (world, client, server, _) in enumerate(connections):
            for direction, group_id in ((2 * number, client), (2 * number + 1, server)):
                group = groups.get((world, group_id))
                if group is not None:
                    self._end_ns[direction] = group.end_ns
                    self._is_told[direction] = not group.partial
                    self._wrong[number] |= not group.is_one

    def _is_client(self, rows: Columns) -> Numbers:
        is_client: Numbers = rows["group_id"] == self._client[rows["connection"]]
        return is_client

    def look_at_ends(self, rows: Columns) -> None:
        """Only groups at its two ends have to do with a connection."""
        at, group_id = rows["connection"], rows["group_id"]
        client, server = self._client[at], self._server[at]
        stranger = (client == server) | ((group_id != client) & (group_id != server))
        self._wrong[at[stranger]] = True

    def doubts(self) -> Doubts:
        def of(flags: Numbers) -> set[tuple[int, ...]]:
            return {self._connections[at] for at in np.flatnonzero(flags).tolist()}

        return Doubts(of(self._wrong), of(self._astray & ~self._wrong))

    def look_at_sent(self, sent: Columns) -> _Written:
        direction = 2 * sent["connection"] + ~self._is_client(sent)
        order = np.lexsort((sent["order_seq_num"], direction))
        order = order[(sent["order_seq_num"] < self._limits.limit[sent["life"]])[order]]
        direction = direction[order]
        columns = {name: sent[name][order] for name in SENT}
        again = _same(direction, columns["order_seq_num"])
        for name in SENT[1:]:
            self._wrong[direction[again & ~_same(columns[name])] // 2] = True
        direction, columns = direction[~again], {name: one[~again] for name, one in columns.items()}
        return self._measured(direction, columns)

    def _measured(self, direction: Numbers, columns: Columns) -> _Written:
        size = np.zeros(2 * len(self._connections), np.int64)
        if not len(direction):
            return _Written(direction, direction, direction, direction, direction, size)
        starts = run_starts(direction)
        found = measured(Meter(), starts, *(columns[name] for name in ("position", "size", "digest")))
        self._wrong[direction[~found["follows"]] // 2] = True
        end = found["end_offset"]
        np.maximum.at(size, direction, end)
        self._bound(end)
        place = direction << OFFSET_BITS | end
        return _Written(direction, columns["timestamp"], end, found["plain_digest"], place, size)

    def _bound(self, offsets: Numbers) -> None:
        if (offsets >> OFFSET_BITS).any():
            self._wrong[:] = True  # what is beside another direction's offsets tells nothing

    def look_at_delivered(self, delivered: Columns, written: _Written) -> Numbers:
        """How far each direction was read."""
        reached = np.zeros(2 * len(self._connections), np.int64)
        limit, performed = self._limits.limit[delivered["life"]], delivered["performed"]
        survives = np.where(performed == UNKNOWN, limit == NO_LIMIT, performed < limit - 1)
        rows = {name: one[survives] for name, one in delivered.items()}
        at = rows["connection"]
        direction = 2 * at + self._is_client(rows)
        offset, digest, previous = rows["stream_offset"], rows["digest"], rows["previous"]
        np.maximum.at(reached, direction, offset)
        self._bound(offset)
        wrong = (previous != UNKNOWN) & (offset - rows["size"] != previous)
        place = direction << OFFSET_BITS | offset
        order = np.argsort(place, kind="stable")
        wrong[order] |= _same(place[order]) & ~_same(digest[order])
        self._wrong[at[wrong]] = True
        astray = offset > written.size[direction]
        astray &= (rows["wall_ns"] < self._end_ns[direction]) & self._is_told[direction]
        for side, back in (("left", 0), ("right", 1)):  # an empty message ends where the one before does
            found = np.searchsorted(written.place, place, side) - back  # type: ignore[call-overload]
            found = np.clip(found, 0, max(len(written.place) - 1, 0))
            if len(written.place):
                astray |= (written.place[found] == place) & (written.plain_digest[found] != digest)
        self._astray[at[astray]] = True
        return reached

    def look_at_collected(self, collected: Columns, written: _Written, reached: Numbers) -> None:
        """No message that was collected is unread, as far as the reader's journals tell."""
        survives = np.maximum(collected["performed"], 0) < self._limits.limit[collected["life"]]
        rows = {name: one[survives] for name, one in collected.items()}
        by_client = self._is_client(rows) == (rows["which"] == IS_SENT)
        direction = 2 * rows["connection"] + ~by_client
        up_to = np.full(len(reached), np.iinfo(np.int64).min)
        np.maximum.at(up_to, direction, rows["up_to_timestamp"])
        furthest = rows["up_to_timestamp"] == up_to[direction]
        wall_ns = np.full(len(reached), np.iinfo(np.int64).max)
        np.minimum.at(wall_ns, direction[furthest], rows["wall_ns"][furthest])
        reader = np.arange(len(reached)) ^ 1
        is_sure = self._is_told[reader] & (wall_ns < self._end_ns[reader])
        at = written.direction
        unread = (written.timestamp <= up_to[at]) & (written.end > reached[at]) & is_sure[at]
        self._astray[at[unread] // 2] = True


def _same(*keys: Numbers) -> Numbers:
    """Whether a row has all of these as the one before it."""
    same = np.zeros(len(keys[0]), bool)
    if len(same):
        same[1:] = np.logical_and.reduce([key[1:] == key[:-1] for key in keys])
    return same
