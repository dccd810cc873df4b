"""Figure 4: latency against the number of non-deterministic operations of a request.

The server makes the same call so often between request and reply. What each one more costs is the slope over
their number; `slope_us` is LLFT's above plain TCP's, which is the price of the native call. Mutexes are
measured where they are ordered (`--threads ordered`): under the token they need no order information.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from llft.cli.measure.comparison import Manner, Point, compare, described, parameters
from llft.cli.measure.operations import OPERATIONS
from llft.cli.measure.points import slope
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import group_side, plain_side


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    with plain_side(manner) as tcp:
        for replicas in arguments.replicas:
            for threads in ("token", "ordered"):
                kinds = [kind for kind in arguments.operations if OPERATIONS[kind].threads == threads]
                if not kinds:
                    continue
                with group_side(manner, replicas=replicas, client_replicas=1, threads=threads) as llft:
                    for kind in kinds:
                        for placement in manner.placements:
                            yield from _by_count(arguments, manner, (tcp, llft), kind, placement, replicas)


def _by_count(
    arguments: argparse.Namespace,
    manner: Manner,
    sides: tuple[Side, Side],
    kind: str,
    placement: str,
    replicas: int,
) -> Iterator[Point]:
    points = []
    for count in arguments.counts:
        request = {"size": arguments.size, "operation": OPERATIONS[kind].number, "count": count}
        own = {"size": arguments.size, "replicas": replicas, "client_replicas": 1, "clients": 1}
        point = parameters(manner, placement, operation=kind, count=count, **own)
        point["threads"] = OPERATIONS[kind].threads
        point |= compare(*sides, Workload(request), placement, manner)
        manner.tell(f"{kind}, {count} of them, {placement}: {described(point)}")
        points.append(point)
    slopes = slopes_of(points)
    manner.tell(f"{kind}, {placement}: each one more costs {slopes['slope_us']:.2f} us over the native call")
    yield from ({**point, **slopes} for point in points)


def slopes_of(points: list[Point]) -> dict[str, float]:
    counts = [point["count"] for point in points]
    tcp, llft = (slope(counts, [point[name] for point in points]) for name in ("tcp_us", "llft_us"))
    return {
        "tcp_slope_us": round(tcp, 4),
        "llft_slope_us": round(llft, 4),
        "slope_us": round(llft - tcp, 4),
    }
