"""The page that `llft tune` writes: the curve, the lines, the tails, the trial on held-out data."""

from __future__ import annotations

from html import escape

from llft.pipeline.charts import Axis, Series, chart, number, page, table
from llft.pipeline.tune.advice import Advice, Trial, toml_lines
from llft.pipeline.tune.cost import Stream
from llft.pipeline.tune.tail import middle_of

CURVE_SPAN = 1000
"""The curve is drawn up to so many times the lowest cost: beyond is only a wall."""


def advice_page(advice: Advice) -> str:
    return page(
        "Timeouts for these heartbeats",
        [
            f"<p>{_sentence(advice)}</p>",
            "<h2>For llft.toml</h2>",
            f"<pre>{escape(chr(10).join(toml_lines(advice.recommended.choice)))}</pre>",
            "<h2>On held-out data</h2>",
            _trials(advice),
            "<h2>The cost of a timeout</h2>",
            curve_chart(advice),
            "<h2>How late heartbeats are</h2>",
            tail_chart(advice.fitted),
            _tails(advice.fitted),
            f"<p>{_assumptions(advice)}</p>",
        ],
    )


def verdict(advice: Advice) -> str:
    """One line: who is better on held-out data, and by how much."""
    ours, theirs = advice.recommended.cost.total_s, advice.default.cost.total_s
    times = f"{theirs / ours:.3g} times" if ours > 0 else "infinitely"
    word = f"{times} better than" if ours < theirs else f"{number(ours / theirs)} times as bad as"
    return f"on held-out data {number(ours)} s a year, {word} the defaults' {number(theirs)} s"


def _sentence(advice: Advice) -> str:
    return escape(
        f"Of {advice.arrivals_s:.0f} s of listening, half was fitted and half held out: {verdict(advice)}."
    )


def _trials(advice: Advice) -> str:
    def row(name: str, trial: Trial) -> list[object]:
        choice, cost = trial.choice, trial.cost
        return [
            name,
            choice.heartbeat_interval_ns / 1e6,
            choice.primary_timeout_ns / 1e6,
            choice.backup_timeout_ns / 1e6,
            cost.detection_s * 1e3,
            cost.suspicions_per_year,
            cost.removals_per_year,
            trial.suspicions,
            cost.total_s,
        ]

    head = [
        "",
        "heartbeat ms",
        "primary timeout ms",
        "backup timeout ms",
        "detection ms",
        "false suspicions a year",
    ]
    head += ["false removals a year", "too late in the data", "unavailable s a year"]
    return table(head, [row("recommended", advice.recommended), row("default", advice.default)])


def curve_chart(advice: Advice) -> str:
    lowest = min(point.cost.total_s for point in advice.curve)
    shown = [point for point in advice.curve if point.cost.total_s <= CURVE_SPAN * lowest]
    best = min(advice.curve, key=lambda point: point.cost.total_s)
    points = tuple((point.choice.primary_timeout_ns / 1e6, point.cost.total_s) for point in shown)
    mark = ((best.choice.primary_timeout_ns / 1e6, best.cost.total_s),)
    interval = f"{best.choice.heartbeat_interval_ns / 1e6:g} ms between heartbeats"
    return chart(
        "Expected unavailability by the primary's timeout",
        Axis("timeout of the backup of rank 2, ms", logarithmic=True),
        Axis("seconds a year", logarithmic=True),
        [Series(interval, points), Series("recommended", mark, marks_only=True)],
    )


def tail_chart(streams: list[Stream]) -> str:
    """Observed marks and fitted lines."""
    series = []
    for stream in streams[:3]:
        tail = stream.tail
        seen = tuple((x / 1e6, n / tail.exposure_s) for x, n in zip(tail.values_ns, tail.beyond, strict=True))
        series.append(Series(f"observed: {stream.name}", seen[:: max(1, len(seen) // 60)], marks_only=True))
        if tail.tail_count:
            last_ns = 5 * tail.values_ns[-1]
            bounds = [middle_of(bucket) for bucket in range(900, 2600, 4)]
            line = tuple((x / 1e6, tail.rate_per_s(x)) for x in bounds if tail.threshold_ns <= x <= last_ns)
            series.append(Series(f"fitted: shape {tail.shape:.2f}", line))
    x_axis = Axis("later than usual by more than, ms", logarithmic=True)
    return chart("Late heartbeats", x_axis, Axis("times per second", logarithmic=True), series)


def _tails(streams: list[Stream]) -> str:
    head = [
        "stream",
        "heartbeat ms",
        "listened s",
        "late at all",
        "tail from ms",
        "in the tail",
        "shape",
        "scale ms",
        "latest ms",
    ]
    rows = [
        [
            stream.name,
            stream.interval_ns / 1e6,
            stream.tail.exposure_s,
            stream.tail.beyond[0] if stream.tail.beyond else 0,
            stream.tail.threshold_ns / 1e6,
            stream.tail.tail_count,
            stream.tail.shape,
            stream.tail.scale_ns / 1e6,
            stream.tail.values_ns[-1] / 1e6 if stream.tail.values_ns else 0.0,
        ]
        for stream in streams
    ]
    return table(head, rows)


def _assumptions(advice: Advice) -> str:
    assumed = advice.assumed
    return escape(
        f"Assumed: {assumed.faults_per_year:g} faults of a replica a year that only a timeout finds, "
        f"{assumed.mistake_cost_s:g} s of unavailability for each mistaken change, "
        f"{advice.replicas} replicas. "
        "Of backups' heartbeats the journals say nothing, so they are taken to come as the primary's do."
    )
