"""What a choice of heartbeat interval and timeouts costs, in seconds of unavailability a year.

    cost = real faults a year x detection latency  +  false suspicions a year x cost of a mistaken change

for the primary, whom its backups watch, and for the backups, whom their primary watches (with output commit a
reply waits for a backup until that one is removed).

A backup of rank r waits (2r - 3) timeouts for its primary, the primary (r + 2) / 4 for a backup of rank r
(`core.membership.fault_detector`). A primary that dies has on average sent its last heartbeat half an
interval ago.

The excess of an arrival over the usual interval is taken to be the network's and the processors' doing, and
to come as often per second under another heartbeat interval; under a longer interval it is scaled up with
it, for it may be a lost heartbeat. Candidates stay within a factor of two of what was measured, because this
is an assumption.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llft.config import PAUSE_INTERVALS
from llft.pipeline.tune.tail import Tail

YEAR_S = 365.25 * 24 * 3600
GRID_RATIO = 1.02
LONGEST_TIMEOUT_NS = 60_000_000_000
BEATS_PER_TIMEOUT = PAUSE_INTERVALS
"""A timeout is at least so many intervals, whatever the data says: one heartbeat may be lost, and a primary
that pauses must know before it is replaced (D-36)."""


@dataclass(frozen=True, slots=True)
class Choice:
    heartbeat_interval_ns: int
    primary_timeout_ns: int
    backup_timeout_ns: int


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What no journal can know."""

    faults_per_year: float = 12.0
    """Of a replica, and only those that a timeout must find: hosts and links. A killed process has a
    certificate (D-23)."""
    mistake_cost_s: float = 1.0
    """The change itself, and what a member that must join again costs."""
    min_interval_ns: int = 5_000_000
    """Each heartbeat takes processor time of everybody; below this it shows in latencies."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What was measured on one kind of stream: one pair of hosts, one load."""

    name: str
    interval_ns: int
    """The usual one: the median."""
    tail: Tail


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of unavailability a year, and what they come from."""

    total_s: float
    detection_s: float
    """The mean latency of detecting a dead primary."""
    suspicions_per_year: float
    """False ones, of primaries."""
    removals_per_year: float
    """False ones, of backups."""


@dataclass(frozen=True, slots=True)
class Point:
    """Of the curve: one timeout for the primary, everything else chosen best."""

    choice: Choice
    cost: Cost


def primary_waits(replicas: int) -> list[int]:
    """Of the backups, in timeouts: ranks 2 to `replicas`."""
    return [2 * rank - 3 for rank in range(2, replicas + 1)]


def backup_waits(replicas: int) -> list[float]:
    return [(rank + 2) / 4 for rank in range(2, replicas + 1)]


def rate_per_s(streams: Sequence[Stream], wait_ns: float, interval_ns: int) -> float:
    """How often per second one stream, taken at random by the time it was listened to, is silent for so
    long."""
    exposure_s = sum(stream.tail.exposure_s for stream in streams)
    found = 0.0
    for stream in streams:
        stretch = max(1.0, interval_ns / stream.interval_ns)
        rate = stream.tail.rate_per_s((wait_ns - interval_ns) / stretch)
        found += rate * stream.tail.exposure_s / exposure_s
    return found


def observed_silences(streams: Sequence[Stream], wait_ns: float, interval_ns: int) -> int:
    """How many of the arrivals that were measured would have been too late."""
    return sum(
        stream.tail.observed_count((wait_ns - interval_ns) / max(1.0, interval_ns / stream.interval_ns))
        for stream in streams
    )


def cost_of(choice: Choice, streams: Sequence[Stream], replicas: int, assumed: Assumptions) -> Cost:
    interval_ns = choice.heartbeat_interval_ns
    primary = _watch(choice.primary_timeout_ns, primary_waits(replicas), streams, interval_ns)
    backup = _watch(choice.backup_timeout_ns, backup_waits(replicas), streams, interval_ns)
    # The first detector to expire has found a dead primary; a dead backup is found by its own.
    found_primary_s = (choice.primary_timeout_ns - interval_ns / 2) / 1e9
    waits = backup_waits(replicas)
    found_backup_s = (choice.backup_timeout_ns * sum(waits) / len(waits) - interval_ns / 2) / 1e9
    faults = assumed.faults_per_year * (found_primary_s + len(waits) * found_backup_s)
    return Cost(
        # A year has no more than a year of unavailability, however many mistakes are made at once.
        total_s=min(YEAR_S, faults + (primary + backup) * assumed.mistake_cost_s),
        detection_s=found_primary_s,
        suspicions_per_year=primary,
        removals_per_year=backup,
    )


def _watch(timeout_ns: int, waits: Sequence[float], streams: Sequence[Stream], interval_ns: int) -> float:
    """False suspicions a year of everybody who watches with these multiples of the timeout."""
    return YEAR_S * sum(rate_per_s(streams, wait * timeout_ns, interval_ns) for wait in waits)


def candidates_ns(streams: Sequence[Stream], assumed: Assumptions) -> list[int]:
    """Heartbeat intervals within a factor of two of a measured one, in whole milliseconds."""
    usual = {max(1, round(stream.interval_ns / 1e6)) for stream in streams}
    near = {interval * factor for interval in usual for factor in (0.5, 1, 2)}
    allowed = sorted(round(ms) * 1_000_000 for ms in near if round(ms) * 1_000_000 >= assumed.min_interval_ns)
    return allowed or [assumed.min_interval_ns]


def curve(
    streams: Sequence[Stream], replicas: int, assumed: Assumptions, interval_ns: int
) -> Iterator[Point]:
    """The cost by the primary's timeout; the backups' timeout is the best one, whatever the primary's is."""
    timeouts = list(_timeouts(interval_ns))
    waits = backup_waits(replicas)

    def backup_cost_s(timeout_ns: int) -> float:
        removals = _watch(timeout_ns, waits, streams, interval_ns)
        return removals * assumed.mistake_cost_s + sum(waits) * timeout_ns / 1e9 * assumed.faults_per_year

    backup_ns = min(timeouts, key=backup_cost_s)
    for timeout_ns in timeouts:
        choice = Choice(interval_ns, timeout_ns, backup_ns)
        yield Point(choice, cost_of(choice, streams, replicas, assumed))


def _timeouts(interval_ns: int) -> Iterator[int]:
    """In whole milliseconds, because that is what people write."""
    timeout_ms, last_ms = BEATS_PER_TIMEOUT * interval_ns / 1e6, 0
    while timeout_ms * 1e6 <= LONGEST_TIMEOUT_NS:
        if round(timeout_ms) > last_ms:
            last_ms = round(timeout_ms)
            yield last_ms * 1_000_000
        timeout_ms *= GRID_RATIO


def recommend(streams: Sequence[Stream], replicas: int, assumed: Assumptions) -> Point:
    """The cheapest point of all curves."""
    points = (
        point
        for interval_ns in candidates_ns(streams, assumed)
        for point in curve(streams, replicas, assumed, interval_ns)
    )
    return min(points, key=lambda point: point.cost.total_s)
