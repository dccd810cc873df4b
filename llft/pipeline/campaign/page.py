"""The page of a campaign."""

from __future__ import annotations

from html import escape
from pathlib import Path

from llft.pipeline.campaign.summary import Summary, Violation
from llft.pipeline.campaign.sums import Kind
from llft.pipeline.charts import Axis, Series, chart, page, table


def write_page(summary: Summary, directory: Path) -> Path:
    target = directory / "index.html"
    target.write_text(page("Simulation campaign", _sections(summary)), encoding="utf-8")
    return target


def _sections(summary: Summary) -> list[str]:
    told = (
        f"{summary.seeds} seeds, {summary.operations} operations, "
        f"{summary.primary_failures} primary failures, "
        f"{summary.simulated_s:.0f} simulated seconds: {summary.violation_count} violations, "
        f"{summary.disagreement_count} disagreements between the audit and the simulator's checkers."
    )
    return [
        f"<p>{escape(told)}</p>",
        *_found("Violations", summary.violations),
        *_found("Disagreements", summary.disagreements),
        *_failovers(summary.kinds),
        *_losses(summary.kinds),
    ]


def _failovers(kinds: list[Kind]) -> list[str]:
    head = [
        "profile",
        "replicas",
        "output commit",
        "seeds",
        "fail-overs",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "max ms",
    ]
    rows = [
        [kind.profile, kind.replicas, kind.output_commit, kind.seeds, kind.failovers, *kind.failover_ms]
        for kind in kinds
    ]
    return [
        "<h2>Fail-over</h2>",
        "<p>From the crash of a primary to the moment another is one, in simulated time.</p>",
        _failover_chart(kinds),
        table(head, rows),
    ]


def _losses(kinds: list[Kind]) -> list[str]:
    head = ["profile", "replicas", "output commit", "acknowledged", "lost", "probability", "bound"]
    rows = [
        [one.profile, one.replicas, one.output_commit, one.acknowledged, one.lost, one.loss, one.loss_bound]
        for one in kinds
    ]
    return [
        "<h2>Acknowledged operations that were lost</h2>",
        "<p>A client has the reply, and the server's surviving branch does not have the operation. The bound "
        "is one-sided, at 95 %; operations of one seed are not independent, so read it as an order of "
        "magnitude.</p>",
        table(head, rows),
    ]


def _found(title: str, found: list[Violation]) -> list[str]:
    if not found:
        return []
    head = ["profile", "seed", "found by", "property", "explanation", "replay"]
    rows = [
        [one.cell.profile, one.seed, one.found_by, one.property, one.explanation, one.replay] for one in found
    ]
    return [f"<h2>{title}</h2>", table(head, rows)]


def _failover_chart(kinds: list[Kind]) -> str:
    series = [
        Series(
            f"{profile}, commit {level}",
            tuple(
                (float(kind.replicas), kind.failover_ms[0])
                for kind in kinds
                if (kind.profile, kind.output_commit) == (profile, level) and kind.failover_ms
            ),
        )
        for profile, level in dict.fromkeys((kind.profile, kind.output_commit) for kind in kinds)
    ]
    return chart("Fail-over (median)", Axis("replicas"), Axis("milliseconds"), series)
