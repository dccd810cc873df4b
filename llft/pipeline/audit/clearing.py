"""Which connections of whole worlds may have something to be found: all rows are here, so no sum is needed.

Says of each connection what `delivery` and `watermark` would find, without the words for it: nothing may be
found on one that is cleared here. In doubt it is not: groups with several histories, and replicas that wrote
other messages under one order number, are left to those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from llft.pipeline.audit.lives import NO_LIMIT
from llft.pipeline.audit.prints import Numbers, run_starts
from llft.pipeline.audit.streams import Meter, measured

if TYPE_CHECKING:
    import pyarrow as pa

ROW = ("process", "life", "group_id", "world", "connection")
SENT = ("order_seq_num", "position", "timestamp", "size", "digest")
DELIVERED = ("stream_offset", "size", "previous", "digest", "performed", "wall_ns")
COLLECTED = ("which", "up_to_timestamp", "performed", "wall_ns")
OFFSET_BITS = 40
"""A direction and an offset are one number; a stream of a terabyte is not cleared."""
UNKNOWN = -1
"""No previous piece is known, or not what was performed."""

Columns = dict[str, Numbers]
Read = Callable[[str, Sequence[str]], "pa.Table"]
"""The rows of a kind, with these columns."""


@dataclass(slots=True)
class Group:
    """What the lives of one say together."""

    end_ns: int = 0
    partial: bool = False
    is_one: bool = True
    """It has one history."""
    pruned: bool = False
    """Somebody did on a side branch what the surviving one does not have."""


@dataclass(frozen=True, slots=True)
class Lives:
    """Those of `Outline.lives`, for who has rows of theirs."""

    limits: dict[tuple[int, int], int]
    pruned: set[tuple[int, int]]
    groups: dict[tuple[int, int], Group]

    @classmethod
    def of(cls, outlined: pa.Table) -> Lives:
        lives = cls({}, set(), {})
        for one in outlined.to_pylist():
            whose = one["process"], one["life"]
            lives.limits[whose] = one["limit"]
            group = lives.groups.setdefault((one["world"], one["group_id"]), Group())
            group.end_ns = max(group.end_ns, one["last_wall_ns"])
            group.partial |= one["partial"]
            group.is_one &= one["epoch"] == 0
            if one["pruned"]:
                lives.pruned.add(whose)
                group.pruned |= one["last_number"] >= one["limit"]
        return lives

    def limit_of(self, rows: Columns) -> Numbers:
        """Of the life that each row is of."""
        process, life = rows["process"], rows["life"]
        starts = run_starts(process, life)
        each = [self.limits[int(process[at]), int(life[at])] for at in starts]
        return np.repeat(np.array(each, np.int64), np.diff(starts, append=len(process)))


@dataclass(slots=True)
class Doubts:
    """World and connection, as numbers."""

    wrong: set[tuple[int, ...]] = field(default_factory=set)
    astray: set[tuple[int, ...]] = field(default_factory=set)
    """Read what was not written, or collected what was not read: a pruned branch may be the excuse."""


def doubts(read: Read, lives: Lives) -> Doubts:
    sent, delivered, collected = (
        _columns(read(kind, (*ROW, *more)))
        for kind, more in (("Sent", SENT), ("Delivered", DELIVERED), ("Collected", COLLECTED))
    )
    board = _Board.of(lives, sent, delivered, collected)
    written = board.look_at_sent(sent)
    reached = board.look_at_delivered(delivered, written)
    board.look_at_collected(collected, written, reached)
    return board.doubts()


def _columns(table: pa.Table) -> Columns:
    from pyarrow import compute

    columns: Columns = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if name == "connection":
            columns |= zip(("client", "server", "number"), map(_numbers, column.flatten()), strict=True)
        elif name == "which":
            columns[name] = compute.equal(column, "sent").to_numpy(zero_copy_only=False)
        else:
            columns[name] = _numbers(column)
    return columns


def _numbers(column: pa.Array) -> Numbers:
    values: Numbers = column.fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return values


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

    def __init__(self, connections: list[tuple[int, ...]], lives: Lives) -> None:
        self._connections = connections
        self._lives = lives
        count = len(connections)
        self._wrong, self._astray = np.zeros(count, bool), np.zeros(count, bool)
        self._end_ns = np.zeros(2 * count, np.int64)
        """Of the group at the writing end."""
        self._is_told = np.zeros(2 * count, bool)
        """All journals of that group are here."""
        for number, (world, client, server, _) in enumerate(connections):
            for direction, group_id in ((2 * number, client), (2 * number + 1, server)):
                group = lives.groups.get((world, group_id))
                if group is not None:
                    self._end_ns[direction] = group.end_ns
                    self._is_told[direction] = not group.partial
                    self._wrong[number] |= not group.is_one

    @classmethod
    def of(cls, lives: Lives, *kinds: Columns) -> _Board:
        """Gives every row of all kinds the number of its connection."""
        names = ("world", "client", "server", "number")
        keys = [np.concatenate([kind[name] for kind in kinds]) for name in names]
        order = np.lexsort(keys)
        starts = run_starts(*(key[order] for key in keys)) if len(order) else order
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
        begin = 0
        for kind in kinds:
            end = begin + len(kind["world"])
            kind["at"] = numbers[begin:end]
            begin = end
        first = [key[order[starts]].tolist() for key in keys]
        board = cls(list(zip(*first, strict=True)), lives)
        for kind in kinds:
            board._look_at_ends(kind)
        return board

    def _look_at_ends(self, rows: Columns) -> None:
        """Only groups at its two ends have to do with a connection."""
        group_id, client, server = (rows[name] for name in ("group_id", "client", "server"))
        stranger = (client == server) | ((group_id != client) & (group_id != server))
        self._wrong[rows["at"][stranger]] = True

    def doubts(self) -> Doubts:
        def of(flags: Numbers) -> set[tuple[int, ...]]:
            return {self._connections[at] for at in np.flatnonzero(flags)}

        return Doubts(of(self._wrong), of(self._astray & ~self._wrong))

    def look_at_sent(self, sent: Columns) -> _Written:
        direction = 2 * sent["at"] + (sent["group_id"] != sent["client"])
        order = np.lexsort((sent["order_seq_num"], direction))
        if len(order):
            order = order[(sent["order_seq_num"] < self._lives.limit_of(sent))[order]]
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
        if not len(delivered["at"]):
            return reached
        limit, performed = self._lives.limit_of(delivered), delivered["performed"]
        survives = np.where(performed == UNKNOWN, limit == NO_LIMIT, performed < limit - 1)
        rows = {name: one[survives] for name, one in delivered.items()}
        direction = 2 * rows["at"] + (rows["group_id"] == rows["client"])
        offset, digest, previous = rows["stream_offset"], rows["digest"], rows["previous"]
        np.maximum.at(reached, direction, offset)
        self._bound(offset)
        wrong = (previous != UNKNOWN) & (offset - rows["size"] != previous)
        place = direction << OFFSET_BITS | offset
        order = np.argsort(place, kind="stable")
        wrong[order] |= _same(place[order]) & ~_same(digest[order])
        self._wrong[rows["at"][wrong]] = True
        astray = offset > written.size[direction]
        astray &= (rows["wall_ns"] < self._end_ns[direction]) & self._is_told[direction]
        for side, back in (("left", 0), ("right", 1)):  # an empty message ends where the one before does
            found = np.searchsorted(written.place, place, side) - back  # type: ignore[call-overload]
            found = np.clip(found, 0, max(len(written.place) - 1, 0))
            if len(written.place):
                astray |= (written.place[found] == place) & (written.plain_digest[found] != digest)
        self._astray[rows["at"][astray]] = True
        return reached

    def look_at_collected(self, collected: Columns, written: _Written, reached: Numbers) -> None:
        """No message that was collected is unread, as far as the reader's journals tell."""
        if not len(collected["at"]) or not len(written.place):
            return
        survives = np.maximum(collected["performed"], 0) < self._lives.limit_of(collected)
        rows = {name: one[survives] for name, one in collected.items()}
        by_client = (rows["group_id"] == rows["client"]) == rows["which"]
        direction = 2 * rows["at"] + ~by_client
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
