"""Figure 10: resident memory of a replica, and of a thousand idle connections.

The echo server that selects, plain and as a group behind its gateway. Connections are opened in steps, from
outside, each asks once, and then nothing more.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator

from llft.cli.bench_soak import rss_mb
from llft.cli.measure.comparison import Manner, Point
from llft.cli.measure.points import slope
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import echo_by_selecting, gateway_side, plain_side
from llft.errors import MisuseError

DESCRIPTORS_BESIDE = 200
"""That a process needs for other things."""

PATIENT = """
[timeouts]
primary_timeout_ms = 4000
backup_timeout_ms = 6000
connect_bound_ms = 20000
lag_bound_ms = 8000
"""
"""Many connections come at once, and nobody is asked how soon they are there."""

Sizes = dict[str, float]


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    allow_descriptors(max(arguments.connections) + DESCRIPTORS_BESIDE)
    patience = "" if manner.config else PATIENT
    with plain_side(manner, echo_by_selecting) as tcp:
        for replicas in arguments.replicas:
            with gateway_side(manner, replicas=replicas, common=patience, serve=echo_by_selecting) as llft:
                points = [_point(tcp, llft, count, replicas, manner) for count in arguments.connections]
            growth = growth_of(points)
            yield from ({**point, **growth} for point in points)


def allow_descriptors(count: int) -> None:
    """For the processes that are started from here: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise MisuseError("too-few-descriptors", "raise it, or take fewer connections", limit=hard)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _point(tcp: Side, llft: Side, connections: int, replicas: int, manner: Manner) -> Point:
    sizes = {**_grown(tcp, connections, "tcp"), **_grown(llft, connections, "llft")}
    told = ", ".join(f"{name.removesuffix('_mb')} {size:.1f} MB" for name, size in sizes.items())
    manner.tell(f"{connections} connections, {replicas} replicas: {told}")
    return {"replicas": replicas, "connections": connections, "lane": manner.lane, **sizes}


def _grown(side: Side, connections: int, name: str) -> Sizes:
    """The largest of each kind."""
    side.connect(connections)
    side.sample(Workload({"size": 64}, connections=connections, crowd=True), connections)
    server = side.server.processes()
    sizes = [rss_mb(pid) for pid in server.serving]
    if name == "tcp":
        return {"tcp_mb": sizes[0]}
    backups = [rss_mb(pid) for pid in server.following]
    return {"primary_mb": sizes[0], "backup_mb": max(backups, default=0.0), "gateway_mb": sizes[1]}


def growth_of(points: list[Point]) -> Sizes:
    """Megabytes for each thousand connections more; nothing of one point alone."""
    counts = [point["connections"] for point in points]
    if len(set(counts)) < 2:
        return {}
    names = ("tcp_mb", "primary_mb", "backup_mb", "gateway_mb")
    return {
        f"{name.removesuffix('_mb')}_mb_per_1000": round(
            1000 * slope(counts, [point[name] for point in points]), 2
        )
        for name in names
    }
