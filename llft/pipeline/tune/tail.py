"""How often a heartbeat is how late: the observed frequencies, and beyond them a fitted tail.

The data is a histogram of *excess*: how much longer than the usual interval a backup waited for the next
heartbeat. Buckets are 1 % wide, so a billion arrivals are a few hundred numbers, and histograms of hosts,
days and loads add up.

Up to a threshold the observed rate speaks. Beyond it stands a generalised Pareto distribution, which is what
excesses over a high threshold follow whatever the rest looks like (Pickands, Balkema, de Haan), fitted by
probability-weighted moments (Hosking and Wallis 1987): closed form, and better than maximum likelihood for
the few hundred points that a tail has. Two departures, both towards caution: a shape below zero, which would
promise a longest possible delay, is taken as zero; one above `MAX_SHAPE`, where the moments do not exist, as
`MAX_SHAPE`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

BUCKET_RATIO = 1.01
ON_TIME = -1
"""The bucket of all that came early, or late by less than `LEAST_EXCESS_NS`."""
LEAST_EXCESS_NS = 10_000
TAIL_SHARE = 0.05
"""At most this share of the arrivals is the tail ..."""
TAIL_COUNT = 100
"""... and, if there are as many that are late at all, at least so many of them."""
MAX_SHAPE = 0.9


@dataclass(frozen=True, slots=True)
class Tail:
    """The rate at which a stream of heartbeats has an excess beyond a bound."""

    exposure_s: float
    """For so long one backup listened to one primary."""
    values_ns: tuple[float, ...]
    """The middles of the buckets, ascending."""
    beyond: tuple[int, ...]
    """How many arrivals were in that bucket or a later one."""
    threshold_ns: float
    shape: float
    scale_ns: float
    tail_count: int

    def rate_per_s(self, excess_ns: float) -> float:
        """How often per second the excess is larger than this."""
        if excess_ns < self.threshold_ns or not self.tail_count:
            return self.observed_count(excess_ns) / self.exposure_s
        survival = _survival(excess_ns - self.threshold_ns, self.shape, self.scale_ns)
        return self.tail_count / self.exposure_s * survival

    def observed_count(self, excess_ns: float) -> int:
        """How many arrivals were that late; the bucket's middle stands for all of it."""
        low, high = 0, len(self.values_ns)
        while low < high:
            middle = (low + high) // 2
            if self.values_ns[middle] > excess_ns:
                high = middle
            else:
                low = middle + 1
        return self.beyond[low] if low < len(self.beyond) else 0


def bucket_of(excess_ns: float) -> int:
    if excess_ns < LEAST_EXCESS_NS:
        return ON_TIME
    return math.floor(math.log(excess_ns) / math.log(BUCKET_RATIO))


def middle_of(bucket: int) -> float:
    return math.exp((bucket + 0.5) * math.log(BUCKET_RATIO))


def fit_tail(histogram: Mapping[int, int], exposure_s: float) -> Tail:
    """`histogram`: arrivals by bucket. Without a late arrival the rate is zero everywhere: no data, no
    tail."""
    if exposure_s <= 0:
        raise ValueError("a tail needs some time of listening")
    late = sorted((bucket, count) for bucket, count in histogram.items() if bucket != ON_TIME and count)
    counts = [count for _, count in late]
    values = tuple(middle_of(bucket) for bucket, _ in late)
    beyond = tuple(reversed(list(accumulate(reversed(counts)))))
    start = _tail_start(beyond, sum(histogram.values()))
    if start is None:
        return Tail(exposure_s, values, beyond, math.inf, 0.0, 0.0, 0)
    threshold = BUCKET_RATIO ** late[start][0]
    over = [(value - threshold, count) for value, count in zip(values[start:], counts[start:], strict=True)]
    shape, scale = fit_pareto(over)
    return Tail(exposure_s, values, beyond, threshold, shape, scale, beyond[start])


def _tail_start(beyond: tuple[int, ...], total: int) -> int | None:
    """The index of the first bucket of the tail: the highest share of arrivals that the limits allow."""
    if not beyond or beyond[0] < 2:
        return None
    wanted = max(TAIL_COUNT, int(total * TAIL_SHARE))
    return next((index for index, count in enumerate(beyond) if count <= wanted), len(beyond) - 1)


def fit_pareto(excesses: list[tuple[float, int]]) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, from (value, count) in ascending order."""
    total = sum(count for _, count in excesses)
    mean = sum(value * count for value, count in excesses) / total
    weighted, before = 0.0, 0
    for value, count in excesses:
        weighted += value * _rank_weights(before, before + count, total)
        before += count
    weighted /= total
    spread = mean - 2 * weighted
    shape = 2 - mean / spread if spread > 0 else 0.0
    shape = min(max(shape, 0.0), MAX_SHAPE)
    # Given the shape, the mean determines the scale; the same as Hosking and Wallis' where nothing was
    # bounded.
    return shape, mean * (1 - shape)


def _rank_weights(first: int, last: int, total: int) -> float:
    """The sum over ranks first+1..last of 1 - (rank - 0.35) / total, in closed form: buckets can hold
    billions."""
    ranks = (last * (last + 1) - first * (first + 1)) / 2
    return (last - first) * (1 + 0.35 / total) - ranks / total


def _survival(over: float, shape: float, scale: float) -> float:
    if scale <= 0:
        return 0.0
    if shape < 1e-9:
        return math.exp(-over / scale)
    return float((1 + shape * over / scale) ** (-1 / shape))
