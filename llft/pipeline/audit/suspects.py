"""Where lives of a group may differ: the buckets of order numbers whose fingerprints are not equal.

Also those that a life was pruned in, for there it has rows that count beside others that do not. A life that
joined or ended in between is suspected for nothing: the drill finds no two rows that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llft.pipeline.audit.lives import Life
from llft.pipeline.audit.prints import BUCKET_BITS


class Suspect(NamedTuple):
    epoch: int
    kind: str
    bucket: int


class Print(NamedTuple):
    """A fingerprint of a group that is known (`prints.PRINT_SCHEMA`)."""

    process: int
    life: int
    kind: str
    bucket: int
    rows: int
    xor: int
    total: int
    last_number: int
    first_wall_ns: int
    last_wall_ns: int


def suspects(prints: Iterable[Print], lives: Sequence[Life]) -> list[Suspect]:
    """Those of one group; epochs and limits of its lives are known."""
    whose = {(life.process, life.life): life for life in lives}
    bad: set[Suspect] = set()
    sums: dict[Suspect, list[tuple[int, int, int]]] = {}
    for (process, number, kind, bucket), added in _added_up(prints).items():
        life = whose[process, number]
        last_bucket = life.limit >> BUCKET_BITS
        if bucket > last_bucket:
            continue
        place = Suspect(life.epoch, kind, bucket)
        sums.setdefault(place, []).append(added)
        if bucket == last_bucket:
            bad.add(place)
    return sorted(
        place
        for place, every in sums.items()
        if len(every) > 1 and (place in bad or any(one != every[0] for one in every))
    )


def _added_up(prints: Iterable[Print]) -> dict[tuple[int, int, str, int], tuple[int, int, int]]:
    sums: dict[tuple[int, int, str, int], tuple[int, int, int]] = {}
    for one in prints:
        rows, xor, total = sums.get(one[:4], (0, 0, 0))
        sums[one[:4]] = (rows + one.rows, xor ^ one.xor, total + one.total)
    return sums
