"""The tail of heartbeat delays: fitted to data whose tail is known."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from llft.pipeline.tune.cost import Assumptions, Choice, Stream, cost_of, curve, observed_silences, recommend
from llft.pipeline.tune.tail import ON_TIME, Tail, bucket_of, fit_pareto, fit_tail, middle_of

MS = 1_000_000
INTERVAL_S = 0.01


def pareto(rng: random.Random, shape: float, scale: float) -> float:
    uniform = 1.0 - rng.random()
    return -scale * math.log(uniform) if shape == 0 else scale / shape * (uniform**-shape - 1)


def tail_of(shape: float, scale_ms: float, *, count: int = 200_000, seed: int = 1) -> Tail:
    rng = random.Random(seed)
    histogram = Counter(bucket_of(pareto(rng, shape, scale_ms * MS)) for _ in range(count))
    return fit_tail(histogram, exposure_s=count * INTERVAL_S)


def stream(tail: Tail) -> Stream:
    return Stream("a to b", 10 * MS, tail)


def test_buckets_are_a_percent_wide_and_hold_their_middle() -> None:
    for excess_ns in (20_000, 123_456, 7 * MS, 3_000 * MS):
        assert middle_of(bucket_of(excess_ns)) == pytest.approx(excess_ns, rel=0.006)
        assert bucket_of(middle_of(bucket_of(excess_ns))) == bucket_of(excess_ns)
    assert bucket_of(-5) == ON_TIME


@pytest.mark.parametrize("shape", [0.0, 0.1, 0.25, 0.4])
def test_the_fit_finds_the_shape_and_scale_that_the_data_was_drawn_from(shape: float) -> None:
    rng = random.Random(7)
    values = Counter(middle_of(bucket_of(pareto(rng, shape, 2.0 * MS))) for _ in range(50_000))
    found_shape, found_scale = fit_pareto(sorted(values.items()))
    assert found_shape == pytest.approx(shape, abs=0.03)
    assert found_scale == pytest.approx(2.0 * MS, rel=0.03)


@pytest.mark.parametrize("shape", [0.0, 0.2])
def test_rates_beyond_the_data_are_those_of_the_known_tail(shape: float) -> None:
    """Ten times as rare as the rarest thing that was seen."""
    tail = tail_of(shape, 1.0)
    probability = 1 / 2_000_000
    quantile_ms = -math.log(probability) if shape == 0 else (probability**-shape - 1) / shape
    assert tail.observed_count(quantile_ms * MS) <= 1
    assert tail.rate_per_s(quantile_ms * MS) * INTERVAL_S == pytest.approx(probability, rel=0.5)


def test_a_bounded_tail_is_not_believed() -> None:
    values = [(float(value), 1) for value in range(1, 1000)]
    shape, scale = fit_pareto(values)
    assert shape == 0.0
    assert scale == pytest.approx(500, rel=0.01)


def test_without_late_arrivals_there_is_no_tail() -> None:
    tail = fit_tail({ON_TIME: 1000}, exposure_s=10.0)
    assert tail.rate_per_s(1.0) == 0.0
    assert tail.observed_count(0.0) == 0


def test_no_listening_is_refused() -> None:
    with pytest.raises(ValueError, match="listening"):
        fit_tail({}, exposure_s=0.0)


def test_the_recommendation_is_where_the_known_tail_has_its_optimum() -> None:
    """For an exponential tail the cost's derivative has a closed form: faults = rate(T) * cost / scale."""
    scale_ms, assumed = 2.0, Assumptions(faults_per_year=12, mistake_cost_s=1.0, min_interval_ns=10 * MS)
    point = recommend([stream(tail_of(0.0, scale_ms))], 2, assumed)
    year_s = 365.25 * 24 * 3600
    best_ms = 10 + scale_ms * math.log(year_s / INTERVAL_S / (scale_ms / 1000 * assumed.faults_per_year))
    assert point.choice.heartbeat_interval_ns == 10 * MS
    assert point.choice.primary_timeout_ns / MS == pytest.approx(best_ms, rel=0.1)


def test_a_heavier_tail_asks_for_more_patience() -> None:
    light, heavy = (recommend([stream(tail_of(shape, 1.0))], 3, Assumptions()) for shape in (0.0, 0.3))
    assert heavy.choice.primary_timeout_ns > 2 * light.choice.primary_timeout_ns


def test_costlier_mistakes_ask_for_more_patience_and_more_faults_for_less() -> None:
    streams = [stream(tail_of(0.2, 1.0))]
    usual = recommend(streams, 3, Assumptions()).choice.primary_timeout_ns
    assert recommend(streams, 3, Assumptions(mistake_cost_s=100)).choice.primary_timeout_ns > usual
    assert recommend(streams, 3, Assumptions(faults_per_year=1000)).choice.primary_timeout_ns < usual


def test_the_recommendation_is_the_cheapest_point_of_its_curve() -> None:
    streams, assumed = [stream(tail_of(0.1, 1.0))], Assumptions()
    best = recommend(streams, 3, assumed)
    points = list(curve(streams, 3, assumed, best.choice.heartbeat_interval_ns))
    assert best.cost.total_s == min(point.cost.total_s for point in points)
    assert points[0].cost.total_s > best.cost.total_s < points[-1].cost.total_s


def test_ranks_wait_as_the_fault_detector_does() -> None:
    """Two replicas have one watcher; the third's is three times as patient and adds next to nothing."""
    streams, choice = [stream(tail_of(0.0, 1.0))], Choice(10 * MS, 25 * MS, 60 * MS)
    two, three = (cost_of(choice, streams, replicas, Assumptions()) for replicas in (2, 3))
    assert two.suspicions_per_year > 0
    assert three.suspicions_per_year == pytest.approx(two.suspicions_per_year, rel=1e-3)
    assert two.detection_s == pytest.approx(0.020)


def test_observed_silences_are_counted_on_the_data() -> None:
    tail = fit_tail({ON_TIME: 900, bucket_of(30 * MS): 7, bucket_of(60 * MS): 3}, exposure_s=10.0)
    assert observed_silences([stream(tail)], 30 * MS, 10 * MS) == 10
    assert observed_silences([stream(tail)], 50 * MS, 10 * MS) == 3
    assert observed_silences([stream(tail)], 90 * MS, 10 * MS) == 0
