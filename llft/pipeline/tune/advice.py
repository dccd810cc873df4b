"""From the records to the advice: which timeouts, what they cost, and what they would have done on held-out
data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from llft.errors import MisuseError
from llft.pipeline.tune.arrivals import collect, count_arrivals, replica_count, streams_of
from llft.pipeline.tune.cost import (
    Assumptions,
    Choice,
    Cost,
    Point,
    Stream,
    backup_waits,
    cost_of,
    curve,
    observed_silences,
    primary_waits,
    recommend,
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A choice, on data that was held out when the recommendation was made."""

    choice: Choice
    cost: Cost
    """By the tails of the held-out data."""
    suspicions: int
    """How many heartbeats of primaries would have been too late, counted and not fitted."""
    removals: int
    """The same of backups, as if their heartbeats came like the primary's: journals have only those."""


@dataclass(frozen=True, slots=True)
class Advice:
    replicas: int
    assumed: Assumptions
    fitted: list[Stream]
    held_out: list[Stream]
    recommended: Trial
    default: Trial
    curve: list[Point]
    """Of the recommended heartbeat interval, on the data of the fit."""

    @property
    def arrivals_s(self) -> float:
        return sum(stream.tail.exposure_s for stream in (*self.fitted, *self.held_out))


def advise(records: DataFrame, default: Choice, assumed: Assumptions) -> Advice:
    found = collect(count_arrivals(records))
    fitted, held_out = (streams_of(found, held_out=half) for half in (False, True))
    if not fitted or not held_out:
        remedy = "give journals of a group with a backup that ran for half a minute or longer"
        raise MisuseError("too-few-heartbeats", remedy, kinds=len(found))
    replicas = replica_count(records)
    best = recommend(fitted, replicas, assumed)
    return Advice(
        replicas=replicas,
        assumed=assumed,
        fitted=fitted,
        held_out=held_out,
        recommended=try_out(best.choice, held_out, replicas, assumed),
        default=try_out(default, held_out, replicas, assumed),
        curve=list(curve(fitted, replicas, assumed, best.choice.heartbeat_interval_ns)),
    )


def try_out(choice: Choice, streams: Sequence[Stream], replicas: int, assumed: Assumptions) -> Trial:
    def late(timeout_ns: int, waits: Sequence[float]) -> int:
        return sum(
            observed_silences(streams, wait * timeout_ns, choice.heartbeat_interval_ns) for wait in waits
        )

    return Trial(
        choice=choice,
        cost=cost_of(choice, streams, replicas, assumed),
        suspicions=late(choice.primary_timeout_ns, primary_waits(replicas)),
        removals=late(choice.backup_timeout_ns, backup_waits(replicas)),
    )


def toml_lines(choice: Choice) -> list[str]:
    """What to write into `llft.toml`."""
    return [
        "[timeouts]",
        f"heartbeat_interval_ms = {choice.heartbeat_interval_ns / 1e6:g}",
        f"primary_timeout_ms = {choice.primary_timeout_ns / 1e6:g}",
        f"backup_timeout_ms = {choice.backup_timeout_ns / 1e6:g}",
    ]


def as_object(advice: Advice) -> dict[str, Any]:
    """For machines. Costs are seconds of unavailability a year on held-out data."""

    def settings(trial: Trial) -> dict[str, float]:
        names = ("heartbeat_interval", "primary_timeout", "backup_timeout")
        return {f"{name}_ms": getattr(trial.choice, f"{name}_ns") / 1e6 for name in names}

    return {
        "recommended": settings(advice.recommended),
        "default": settings(advice.default),
        "recommended_cost": advice.recommended.cost.total_s,
        "default_cost": advice.default.cost.total_s,
        "recommended_suspicions": advice.recommended.suspicions,
        "default_suspicions": advice.default.suspicions,
        "replicas": advice.replicas,
        "listened_s": round(advice.arrivals_s, 1),
    }
