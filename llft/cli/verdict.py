"""What a trial comes to: counts that must be zero, and times.

`suspicions` counts the false ones: a replica suspected another that nobody had killed or stopped. They are
in the journals of the replicas, also of those that were killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llft.cli.percentiles import percentiles
from llft.cli.trial import Failover
from llft.journal.reader import read_journal
from llft.journal.record import Suspected

MUST_BE_ZERO = ("lost", "duplicated", "changed", "broken")
STAGES = ("detection", "view_change", "synchrony", "first_reply")


def false_suspicions(journals: Path, failovers: Sequence[Failover], *, until_ns: int) -> int:
    hit_ns = {failover.victim: failover.kill_ns for failover in failovers}
    count = 0
    for path in sorted(journals.glob("replica-*.llj")):
        for record in read_journal(path):
            if not isinstance(record, Suspected) or record.stamp.time_ns > until_ns:
                continue
            deserved = hit_ns.get(str(record.suspect), until_ns) <= record.stamp.time_ns
            # One that was stopped wakes up with all its timers expired.
            dazed = hit_ns.get(str(record.stamp.birth_id), until_ns) <= record.stamp.time_ns
            count += not deserved and not dazed
    return count


def verdict_object(
    counts: dict[str, Any],
    failovers: Sequence[Failover],
    *,
    suspicions: int,
    failure: str,
    calm: bool = False,
) -> dict[str, Any]:
    """The object that `--json` ends with. `calm`: nobody was to be killed, so nobody may be suspected."""
    found = {name: counts.get(name, 0) for name in ("requests", "replies", *MUST_BE_ZERO)}
    stages = {
        stage: percentiles([each.stages_ms[stage] for each in failovers if stage in each.stages_ms])
        for stage in STAGES
    }
    undisturbed = [each.gap_ms for each in failovers if not each.stolen_ms]
    as_wanted = not suspicions if calm else bool(failovers)
    return {
        **found,
        "kills": len(failovers),
        "suspicions": suspicions,
        "failover_ms": percentiles([each.gap_ms for each in failovers]),
        "undisturbed": len(undisturbed),
        "undisturbed_ms": percentiles(undisturbed),
        "stages_ms": stages,
        "rejoin_ms": percentiles([each.rejoin_ms for each in failovers if each.rejoin_ms]),
        "latency_ms": counts.get("latency_ms", percentiles([])),
        "failure": failure or counts.get("first_complaint", ""),
        "passed": not failure and as_wanted and not any(found[name] for name in MUST_BE_ZERO),
    }


def verdict_lines(verdict: dict[str, Any]) -> list[str]:
    """For people."""
    zeros = ", ".join(f"{name} {verdict[name]}" for name in MUST_BE_ZERO[:3])
    gap, usual = verdict["failover_ms"], verdict["latency_ms"]
    lines = [
        f"{verdict['requests']} requests sent, {verdict['replies']} replies: {zeros}, "
        f"connections broken {verdict['broken']}",
        f"{verdict['kills']} kills, {verdict['suspicions']} false suspicions",
    ]
    if usual["p50"] is not None:
        lines.append(f"a request took p50 {usual['p50']:.1f} ms, p99 {usual['p99']:.1f} ms")
    if gap["p50"] is not None:
        lines.append(f"fail-over as clients saw it: p50 {gap['p50']:.1f} ms, p99 {gap['p99']:.1f} ms")
    alone = verdict["undisturbed_ms"]
    if alone["p50"] is not None and verdict["undisturbed"] < verdict["kills"]:
        lines.append(
            f"the {verdict['undisturbed']} of them during which the host took no time from this machine: "
            f"p50 {alone['p50']:.1f} ms, p99 {alone['p99']:.1f} ms"
        )
    stages = {name: verdict["stages_ms"][name]["p50"] for name in STAGES}
    told = [f"{name.replace('_', ' ')} {value:.1f}" for name, value in stages.items() if value is not None]
    if told:
        lines.append(f"its stages, p50 in ms: {', '.join(told)}")
    if verdict["failure"]:
        lines.append(f"FAILED: {verdict['failure']}")
    elif not verdict["passed"]:
        lines.append("FAILED")
    return lines
