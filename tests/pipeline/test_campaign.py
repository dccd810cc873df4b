"""Campaigns: no seed is lost, whatever happens to its worker, and both judges say the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from llft.cli import seed_work
from llft.errors import MisuseError
from llft.journal.record import SCHEMA_VERSION, Diverged, Gap, Record
from llft.pipeline.campaign.encode import SOURCE, table_of
from llft.pipeline.campaign.gathered import Gathered, gather
from llft.pipeline.campaign.isolation import run_alone, run_guarded
from llft.pipeline.campaign.job import run_campaign
from llft.pipeline.campaign.outcome import Cell, RunSeed
from llft.pipeline.campaign.page import write_page
from llft.pipeline.campaign.plan import Campaign, Directory
from llft.pipeline.campaign.summary import Summary, summarise
from llft.pipeline.campaign.sums import upper_bound
from llft.pipeline.decode import ProcessState, Row, flatten
from llft.pipeline.ingest import arrow_batches
from llft.pipeline.schema import RECORD_SCHEMA
from llft.simulator.options import SimulationOptions
from llft.simulator.plants import PLANTS
from llft.simulator.runner import run_seed as run_plain
from tests.pipeline import campaign_seeds


def run(spark: SparkSession, run_seed: RunSeed, campaign: Campaign, directory: Path) -> Summary:
    where = Directory(directory)
    run_campaign(spark, run_seed, campaign, where, tell=lambda done: None)
    return summarise(spark, campaign, where, seed_work.replay_command)


def fake(tmp_path: Path, seeds: int, batch_size: int = 2) -> Campaign:
    scene = tmp_path / "scene"
    scene.mkdir()
    return Campaign((Cell(str(scene)),), 0, seeds, batch_size)


def runs(tmp_path: Path) -> Counter[int]:
    return Counter(map(int, (tmp_path / "scene" / "runs").read_text(encoding="ascii").split()))


# -- real seeds -----------------------------------------------------------------------------------


PLANT = PLANTS["random-not-ordered"]
CLEAN = (Cell("calm", 2), Cell("crash"))
PLANTED = Cell(PLANT.profile, None, PLANT.name)
CELLS = (*CLEAN, PLANTED)
NEARBY_SEEDS = 12


class Ran(NamedTuple):
    campaign: Campaign
    summary: Summary
    directory: Path


@pytest.fixture(scope="module")
def first_seed() -> int:
    """One whose journals show the plant; the one noted with it goes stale when the core changes."""
    for seed in (PLANT.seed, *range(NEARBY_SEEDS)):
        if seed_work.run_seed(seed, PLANTED).in_journals:
            return seed
    pytest.fail(f"no seed shows {PLANT.name}")


@pytest.fixture(scope="module")
def ran(spark: SparkSession, first_seed: int, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Clean cells and one with a planted bug."""
    campaign = Campaign(CELLS, first_seed, first_seed + 3, 3)
    directory = tmp_path_factory.mktemp("campaign")
    return Ran(campaign, run(spark, seed_work.run_seed, campaign, directory), directory)


def test_both_judges_agree_about_real_seeds(ran: Ran) -> None:
    summary = ran.summary
    assert (summary.seeds, summary.disagreement_count) == (9, 0)
    assert {violation.cell for violation in summary.violations} == {PLANTED}
    calm = next(kind for kind in summary.kinds if kind.profile == "calm")
    assert (calm.replicas, calm.seeds, calm.failovers, calm.lost) == (2, 3, 0, 0)
    assert calm.acknowledged > 0
    crash = [kind for kind in summary.kinds if kind.profile == "crash"]
    assert sum(kind.failovers for kind in crash) > 0
    assert all(0 < ms < 1000 for kind in crash for ms in kind.failover_ms)
    assert "Simulation campaign" in write_page(summary, ran.directory).read_text(encoding="utf-8")


def test_a_planted_bug_is_found_with_its_replay(ran: Ran) -> None:
    seed = ran.campaign.first
    [first] = [one for one in ran.summary.violations if one.seed == seed][:1]
    assert f"--seed {seed}" in first.replay
    assert f"--plant {PLANT.name}" in first.replay
    violated = {(one.cell, one.seed) for one in ran.summary.violations}
    accused = {
        f"batch-{batch.number}.parquet"
        for batch in ran.campaign.batches()
        if any((CELLS[batch.cell], seed) in violated for seed in batch.seeds)
    }
    kept = {path.name for path in (ran.directory / "journals").iterdir()}
    assert kept == accused, "journals of a violation stay, clean ones go"


def test_how_seeds_are_distributed_changes_nothing(spark: SparkSession, ran: Ran, tmp_path: Path) -> None:
    campaign = replace(ran.campaign, batch_size=1)
    other = run(spark, campaign_seeds.without_records, campaign, tmp_path)
    assert other.trace == ran.summary.trace
    assert other.operations == ran.summary.operations > 0
    assert other.violation_count == ran.summary.violation_count


def test_a_seed_of_a_campaign_is_the_seed_of_the_simulator() -> None:
    """Writing down what clients saw changes nothing."""
    outcome = seed_work.run_seed(2, Cell("crash"))
    result = run_plain(2, SimulationOptions(profile="crash"))
    assert outcome.trace_hash == result.trace_hash
    assert outcome.operations == result.operations
    assert {call.target for call in outcome.calls} <= {"tickets:100", "tickets:50"}
    assert all(call.call_ns < call.return_ns for call in outcome.calls if call.return_ns)
    assert outcome.acknowledged > 0


def test_what_replicas_find_themselves_is_in_the_journals_of_a_planted_bug() -> None:
    """The checkers expect it of a bug that was planted. Nobody tells the audit of one: it must not be alone
    with what it finds."""
    plant = PLANTS["random-evicted"]
    for seed in (4, *range(NEARBY_SEEDS)):
        outcome = seed_work.run_seed(seed, Cell(plant.profile, None, plant.name))
        if any(isinstance(record, Diverged) for record in outcome.records):
            assert "digests" in outcome.in_journals
            if not outcome.violations:
                return
    pytest.fail("in no seed did replicas find a divergence that the checkers excuse")


# -- workers and seeds that break -----------------------------------------------------------------


def test_seeds_and_workers_that_break_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """One seed raises, one kills whatever runs it, and one worker is killed from outside."""
    summary = run(spark, campaign_seeds.troubled, fake(tmp_path, 12), tmp_path / "out")
    assert (tmp_path / "scene" / "died").exists()
    assert (summary.seeds, summary.operations) == (12, 3 * 10)
    raised, killed = sorted(summary.violations, key=lambda violation: violation.seed)
    assert (raised.seed, raised.property) == (campaign_seeds.RAISES, "crash")
    assert "seed 3 is broken" in raised.explanation
    assert (killed.seed, killed.property) == (campaign_seeds.KILLS_ITS_PROCESS, "crash")
    assert "SIGKILL" in killed.explanation
    sound = set(range(12)) - {campaign_seeds.RAISES, campaign_seeds.KILLS_ITS_PROCESS}
    assert set(runs(tmp_path)) == sound


def test_a_campaign_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    campaign = fake(tmp_path, 6)
    run(spark, campaign_seeds.orderly, campaign, tmp_path / "out")
    Directory(tmp_path / "out").outcome_file(1).unlink()
    summary = run(spark, campaign_seeds.orderly, campaign, tmp_path / "out")
    assert summary.seeds == 6
    assert runs(tmp_path) == {0: 1, 1: 1, 2: 2, 3: 2, 4: 1, 5: 1}


def test_another_campaign_may_not_go_on_in_its_directory(tmp_path: Path) -> None:
    Directory(tmp_path).claim(Campaign((Cell("calm"),), 0, 5, 2))
    Directory(tmp_path).claim(Campaign((Cell("calm"),), 0, 5, 2))
    with pytest.raises(MisuseError, match="--output"):
        Directory(tmp_path).claim(Campaign((Cell("calm"),), 0, 6, 2))


def test_a_seed_that_computes_for_ever_ends(tmp_path: Path) -> None:
    outcome = run_guarded(campaign_seeds.one_computes_for_ever, 4, Cell(str(tmp_path)), limit_s=0.05)
    assert [name for name, _ in outcome.violations] == ["crash"]
    assert "processor time" in outcome.violations[0][1]


def test_alone_and_in_the_worker_a_seed_is_the_same(tmp_path: Path) -> None:
    cell = Cell(str(tmp_path))
    assert run_alone(campaign_seeds.orderly, 5, cell) == run_guarded(campaign_seeds.orderly, 5, cell)


# -- the tables -----------------------------------------------------------------------------------


def test_batches_cover_every_seed_of_every_cell_once() -> None:
    campaign = Campaign((Cell("calm"), Cell("crash")), 10, 45, 8)
    covered = Counter((batch.cell, seed) for batch in campaign.batches() for seed in batch.seeds)
    assert covered == Counter({(cell, seed): 1 for cell in (0, 1) for seed in range(10, 45)})
    assert campaign.seed_count == 70
    assert json.loads(campaign.to_json())["seeds"] == "10:45"


@pytest.mark.parametrize(("lost", "tried"), [(0, 100), (0, 100_000), (3, 1000), (10, 10)])
def test_the_bound_of_a_probability_is_that_of_clopper_and_pearson(lost: int, tried: int) -> None:
    bound = upper_bound(lost, tried)
    if lost == 0:
        assert bound == pytest.approx(1 - 0.05 ** (1 / tried), rel=1e-6)
    assert lost / tried <= bound <= 1
    if (lost, tried) == (3, 1000):
        assert bound == pytest.approx(0.00773, rel=0.01)


def test_nothing_tried_is_nothing_known() -> None:
    assert upper_bound(0, 0) == 1.0


# -- rows -----------------------------------------------------------------------------------------


def test_the_last_seeds_are_given_out_in_small_parts() -> None:
    """Those of the last cell: there is enough to do until then."""
    batches = list(Campaign((Cell("calm"), Cell("crash")), 0, 50, 8).batches())
    sizes = [[len(batch.seeds) for batch in batches if batch.cell == cell] for cell in (0, 1)]
    assert sizes == [[*[8] * 6, 2], [8, 8, 8, 6, 5, 3, 3, 2, 2, 2, 2, 1]]


def taken_one_by_one(worlds: dict[int, list[Record]]) -> pa.Table:
    """As journals on disk are decoded."""
    rows: dict[str, list[Row]] = {}
    for world, records in worlds.items():
        states: dict[object, ProcessState] = {}
        places: Counter[object] = Counter()
        for record in records:
            birth_id = record.stamp.birth_id
            places[birth_id] += 1
            state = states.setdefault(birth_id, ProcessState(world=world))
            row = (world, SOURCE, places[birth_id], SCHEMA_VERSION, *flatten(record), *state.derive(record))
            rows.setdefault(type(record).__name__, []).append(row)
    return pa.Table.from_batches(arrow_batches(rows))


def with_gaps(records: list[Record], chance: random.Random) -> list[Record]:
    gone = set(chance.sample(range(len(records)), 20))
    return [Gap(one.stamp, 1) if at in gone else one for at, one in enumerate(records)]


def test_worlds_become_the_rows_that_their_journals_on_disk_become() -> None:
    """All columns at once is as one record after the other; with gaps, and out of order, too."""
    chance = random.Random(1)
    outcome = seed_work.run_seed(5, Cell("churn"))
    other = list(seed_work.run_seed(6, Cell("crash")).records)
    worlds = {7: list(outcome.records), 8: other, 9: with_gaps(other, chance), 10: list(outcome.calls)}
    worlds[11] = chance.sample(worlds[7], len(worlds[7]) // 2)
    gathered = Gathered()
    for world, records in worlds.items():
        gather(gathered, records, world=world)
    made = table_of(gathered)
    assert made is not None
    in_order = [(name, "ascending") for name in ("kind", "process", "place")]
    made, expected = made.sort_by(in_order), taken_one_by_one(worlds).sort_by(in_order)
    assert made.schema == expected.schema
    for name in RECORD_SCHEMA.names:
        assert made[name].to_pylist() == expected[name].to_pylist(), name
