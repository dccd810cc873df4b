"""Suspects compared in short: whoever differs is found, whoever only came later or ended earlier is not."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import compute

from llft.cli import seed_work
from llft.journal.record import ClockRead, Operated, Record, Sent
from llft.pipeline.audit.drill import SHORT, Drill, compare, shorten
from llft.pipeline.audit.lives import NO_LIMIT
from llft.pipeline.audit.prints import BUCKET_BITS, COMPARED
from llft.pipeline.campaign.encode import table_of
from llft.pipeline.campaign.gathered import Gathered, gather
from llft.pipeline.campaign.outcome import Cell


@pytest.fixture(scope="module")
def world() -> list[Record]:
    """Replicas join and die in it, and nobody differs."""
    outcome = seed_work.run_seed(5, Cell("churn", 3))
    assert not outcome.violations
    return list(outcome.records)


def differing(worlds: dict[int, list[Record]]) -> set[tuple[int, int]]:
    """Everything is suspected."""
    gathered = Gathered()
    for world, records in worlds.items():
        gather(gathered, records, world=world)
    table = table_of(gathered)
    assert table is not None
    chosen = table.filter(compute.is_in(table["kind"], value_set=pa.array(COMPARED)))
    rows = chosen.select(SHORT).to_pylist()
    places: dict[tuple[int, int, int, str], set[int]] = {}
    for row in rows:
        key = (row["world"], row["group_id"], 0, row["kind"])
        places.setdefault(key, set()).add(row["order_seq_num"] >> BUCKET_BITS)
    whose = {(row["process"], row["life"]): (0, NO_LIMIT, "") for row in rows}
    drill = Drill(whose, {key: frozenset(buckets) for key, buckets in places.items()})
    found = compare(shorten(drill, chosen.select(SHORT).to_batches()))
    return {(row["world"], row["group_id"]) for batch in found for row in batch.to_pylist()}


def surviving(world: list[Record]) -> list[Record]:
    """Without groups of which somebody did what nobody heard of: limits are not what this is about."""
    bad = {group_id for _, group_id in differing({1: world})}
    return [record for record in world if record.stamp.group_id not in bad]


@pytest.mark.parametrize("kind", [Operated, Sent, ClockRead])
def test_one_record_that_differs_is_found_in_its_world_and_group(world: list[Record], kind: type) -> None:
    clean = surviving(world)
    assert differing({1: clean}) == set()
    shared = [at for at, one in enumerate(clean) if type(one) is kind and _has_twin(one, clean)]
    at = shared[len(shared) // 2]
    other = list(clean)
    other[at] = _altered(clean[at])
    assert differing({1: clean, 2: other}) == {(2, clean[at].stamp.group_id)}


def _has_twin(record: Record, records: list[Record]) -> bool:
    return any(
        one[1:] == record[1:] and one.stamp.group_id == record.stamp.group_id and one is not record
        for one in records
        if type(one) is type(record)
    )


def _altered(record: Record) -> Record:
    if isinstance(record, Operated):
        return record._replace(entry=record.entry + "!")
    if isinstance(record, Sent):
        return record._replace(digest=record.digest ^ 1)
    assert isinstance(record, ClockRead)
    return record._replace(value_ns=record.value_ns + 1)
