"""The records of whole worlds, as those take them who judge worlds where they come into being.

Rows are numbers in columns, kind by kind, each process's in the order of its journal. Lives are numbered:
what is known of one is found by its number, and a connection is a number of its own in each world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from llft.pipeline.audit.lives import Life
from llft.pipeline.audit.prints import Numbers
from llft.pipeline.histories.witness import Call

Columns = dict[str, Numbers]
Connection = tuple[int, ...]
"""World, client, server, number."""

UNKNOWN = -1
"""No predecessor is known, or not what was performed."""


class Row(NamedTuple):
    """A record as it is, where numbers do not tell enough."""

    life: int
    performed: int | None
    wall_ns: int
    record: Any


class Object(NamedTuple):
    """What clients call."""

    world: int
    group_id: int
    target: str


@dataclass(frozen=True, slots=True)
class Whole:
    """Some worlds, all of each."""

    lives: Sequence[Life]
    """With their rare records. What clients write is no life."""
    worlds: Sequence[int]
    """Of each life."""
    connections: Sequence[Connection]
    columns: Callable[[str], Columns]
    """Of a kind that there are many of: its fields and `life`; of what has a connection also `group_id`,
    `wall_ns` and `performed`, of a Delivered `previous`."""
    rows: Callable[[str, Iterable[int]], Iterator[Row]]
    """Of a kind, of these lives."""
    rows_at: Callable[[str, Numbers], Iterator[Row]]
    """Of a kind that has columns, at these places of them."""
    calls: dict[Object, list[Call]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is known of the lives by their numbers, when their branches are told apart."""

    limit: Numbers
    owner: Numbers
    """A number for each history of a group."""
    world: Numbers

    @classmethod
    def of(cls, whole: Whole) -> Limits:
        owners: dict[tuple[int, int, int], int] = {}
        pairs = zip(whole.worlds, whole.lives, strict=True)
        keys = ((world, life.group_id, life.epoch) for world, life in pairs)
        owner = [owners.setdefault(key, len(owners)) for key in keys]
        limit = [life.limit for life in whole.lives]
        return cls(*(np.array(one, np.int64) for one in (limit, owner, whole.worlds)))

    def worlds_of(self, lives: Numbers) -> set[int]:
        return set(self.world[lives].tolist())
