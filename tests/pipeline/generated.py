"""Histories that are generated, with faults planted at random, for two judges to agree about."""

from __future__ import annotations

import random
from collections.abc import Callable

from llft.journal.record import ClockRead, Delivered, Operated, Record, Sent
from tests.pipeline.history import Journals, clean

WORLDS = 40


def _change(
    kind: type, alter: Callable[[Record, random.Random], Record]
) -> Callable[[list[Record], random.Random], None]:
    def plant(records: list[Record], chance: random.Random) -> None:
        index = chance.choice([at for at, record in enumerate(records) if isinstance(record, kind)])
        records[index] = alter(records[index], chance)

    return plant


def _drop(kind: type) -> Callable[[list[Record], random.Random], None]:
    def plant(records: list[Record], chance: random.Random) -> None:
        del records[
            chance.choice([at for at, record in enumerate(records) if isinstance(record, kind)][1:-1])
        ]

    return plant


def _repeat(kind: type) -> Callable[[list[Record], random.Random], None]:
    def plant(records: list[Record], chance: random.Random) -> None:
        index = chance.choice([at for at, record in enumerate(records) if isinstance(record, kind)])
        records.insert(index, records[index])

    return plant


def _swap(records: list[Record], chance: random.Random) -> None:
    places = [at for at, record in enumerate(records) if isinstance(record, Operated)]
    first = chance.randrange(len(places) - 1)
    one, other = places[first], places[first + 1]
    records[one], records[other] = records[other], records[one]


PLANTS = (
    _change(Operated, lambda record, chance: record._replace(entry=f"other {chance.random()}")),  # type: ignore[call-arg]
    _change(Sent, lambda record, chance: record._replace(digest=chance.getrandbits(32))),  # type: ignore[call-arg]
    _change(ClockRead, lambda record, chance: record._replace(value_ns=record.value_ns + 1)),  # type: ignore[union-attr, call-arg]
    _change(ClockRead, lambda record, chance: record._replace(value_ns=5)),  # type: ignore[call-arg]
    _drop(Operated),
    _repeat(Operated),
    _drop(Delivered),
    _repeat(Delivered),
    _swap,
)


def planted(seed: int) -> Journals:
    """Up to three faults, in journals of backups: the primary's word is what others are compared with."""
    chance = random.Random(seed)
    journals = clean()
    for _ in range(seed % 4):
        chance.choice(PLANTS)(journals[chance.choice("DC")], chance)
    return journals
