"""Tune from records to the page: on synthetic heartbeats of a known tail, and on a simulator's journals."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from llft.errors import MisuseError
from llft.pipeline.ingest import read_journals
from llft.pipeline.tune.advice import advise, as_object, toml_lines
from llft.pipeline.tune.arrivals import Key, collect, count_arrivals
from llft.pipeline.tune.cost import Assumptions, Choice
from llft.pipeline.tune.page import advice_page
from llft.pipeline.tune.tail import ON_TIME, bucket_of
from llft.simulator.options import SimulationOptions
from llft.simulator.runner import run_seed

MS = 1_000_000
SECOND = 1000 * MS
DEFAULT = Choice(10 * MS, 60 * MS, 150 * MS)

COLUMNS = (
    "kind string, process long, group_id long, time_ns long, interval_ns long, "
    "birth_id struct<host_id:long>, sender struct<host_id:long>, membership array<struct<precedence:long>>"
)


def beat(process: int, time_ns: int, interval_ns: int) -> tuple[object, ...]:
    return ("HeartbeatArrived", process, 1, time_ns, interval_ns, (process,), (9,), None)


def operated(process: int, time_ns: int) -> tuple[object, ...]:
    return ("Operated", process, 1, time_ns, None, (process,), None, None)


def records_of(spark: SparkSession, rows: list[tuple[object, ...]]) -> DataFrame:
    membership = ("MembershipChanged", 9, 1, 0, None, (9,), None, [(1,), (2,), (3,)])
    return spark.createDataFrame([membership, *rows], COLUMNS)


def late_beats(scale_ms: float, *, seconds: int = 120, seed: int = 3) -> list[tuple[object, ...]]:
    """A heartbeat every 10 ms; each waits for an exponential time more."""
    rng = random.Random(seed)
    rows, now_ns = [], 0
    while now_ns < seconds * SECOND:
        interval_ns = 10 * MS + round(rng.expovariate(1 / (scale_ms * MS)) if rng.random() < 0.2 else 0)
        now_ns += interval_ns
        rows.append(beat(1, now_ns, interval_ns))
    return rows


def test_arrivals_are_counted_by_pair_load_half_and_lateness(spark: SparkSession) -> None:
    usual = [beat(1, 10 * MS * n, 10 * MS) for n in range(1, 900)]
    late = [beat(1, 9 * SECOND + 1, 40 * MS), beat(1, 10 * SECOND + 1, 70 * MS)]
    load = [operated(1, 9 * SECOND + n) for n in range(250)]
    found = collect(count_arrivals(records_of(spark, [*usual, *late, *load, beat(1, 5, 0)])))
    assert set(found) == {Key("9 to 1", "0", False), Key("9 to 1", "100+", False), Key("9 to 1", "0", True)}
    [idle], [busy], [held_out] = (
        found[key] for key in sorted(found, key=lambda key: (key.held_out, key.load))
    )
    assert idle.interval_ns == 10 * MS
    assert idle.histogram == {ON_TIME: 899}
    assert idle.listened_ns == 899 * 10 * MS
    assert busy.histogram == {bucket_of(30 * MS): 1}
    assert held_out.histogram == {bucket_of(60 * MS): 1}


def test_bursts_do_not_hide_the_usual_interval(spark: SparkSession) -> None:
    """A listener that gets a processor every 200 ms finds twenty heartbeats, and nineteen of them at once."""
    rows, now_ns = [], 0
    for _ in range(40):
        for interval_ns in (200 * MS - 19_000, *[1000] * 19):
            now_ns += interval_ns
            rows.append(beat(1, now_ns, interval_ns))
    [[kind]] = collect(count_arrivals(records_of(spark, rows))).values()
    assert kind.interval_ns == 10 * MS
    assert sum(count for bucket, count in kind.histogram.items() if bucket != ON_TIME) == 40


def test_the_advice_beats_the_defaults_on_held_out_data(spark: SparkSession) -> None:
    """Once too impatient, once too patient: the defaults' 60 ms suit neither network."""
    for scale_ms in (25.0, 0.5):
        advice = advise(records_of(spark, late_beats(scale_ms)), DEFAULT, Assumptions())
        assert advice.replicas == 3
        assert advice.recommended.cost.total_s < advice.default.cost.total_s
        patient = advice.recommended.choice.primary_timeout_ns > DEFAULT.primary_timeout_ns
        assert patient == (scale_ms == 25.0)
        assert advice.recommended.suspicions == 0
        assert (advice.default.suspicions > 0) == patient


def test_the_lines_and_the_object_say_the_same(spark: SparkSession) -> None:
    advice = advise(records_of(spark, late_beats(2.0)), DEFAULT, Assumptions())
    found = json.loads(json.dumps(as_object(advice)))
    assert {"recommended", "default_cost", "recommended_cost"} <= set(found)
    assert toml_lines(advice.recommended.choice)[1:] == [
        f"{name} = {value:g}" for name, value in found["recommended"].items()
    ]
    text = advice_page(advice)
    assert "primary_timeout_ms" in text
    assert "times better than the defaults" in text
    assert text.count("<svg") == 2


def test_too_few_heartbeats_are_refused_with_a_remedy(spark: SparkSession) -> None:
    with pytest.raises(MisuseError, match="half a minute"):
        advise(records_of(spark, [beat(1, 5 * SECOND, 10 * MS)]), DEFAULT, Assumptions())


def test_heartbeats_of_simulated_groups_are_found(spark: SparkSession, tmp_path: Path) -> None:
    """Seeds are shorter than a block, so this counts and does not advise."""
    run_seed(3, SimulationOptions(profile="calm", journal_dir=str(tmp_path)))
    found = collect(count_arrivals(read_journals(spark, [tmp_path])))
    kinds = [kind for kinds in found.values() for kind in kinds]
    assert {kind.interval_ns for kind in kinds} == {10 * MS}
    assert sum(sum(kind.histogram.values()) for kind in kinds) > 20
