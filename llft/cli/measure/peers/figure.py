"""One row for each store. One that is not installed is left out, and that is told."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from llft.cli.measure.comparison import Manner, Point
from llft.cli.measure.peers import etcd_store, llft_store, pysyncobj_store, redis_store
from llft.cli.measure.peers.store import Cluster
from llft.cli.measure.peers.workload import gap_and_lost, latencies_us, rate
from llft.cli.percentiles import percentiles
from llft.errors import MisuseError

Start = Callable[[Path], AbstractContextManager[Cluster]]
STORES: Mapping[str, Start] = {
    "llft": llft_store.started,
    "redis": redis_store.started,
    "etcd": etcd_store.started,
    "pysyncobj": pysyncobj_store.started,
}


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    for name in arguments.stores:
        try:
            point = _measured(name, arguments.connections, manner)
        except MisuseError as error:
            manner.tell(f"{name} is left out: {error}")
            continue
        manner.tell(
            f"{name}: p50 {point['us']:.0f} us, {point['rps']} writes/s with {point['clients']} clients, "
            f"fail-over {point['gap_ms']:.0f} ms (at most {point['gap_max_ms']:.0f}), lost {point['lost']}"
        )
        yield point


def _measured(name: str, clients: int, manner: Manner) -> Point:
    """A round is a cluster of its own, and one kill."""
    times_us: list[float] = []
    rates, gaps, lost = [], [], 0
    for _ in range(manner.rounds):
        with (
            tempfile.TemporaryDirectory(prefix="llft-peer-") as directory,
            STORES[name](Path(directory)) as cluster,
        ):
            times_us += latencies_us(cluster, manner.seconds)
            rates.append(rate(cluster, clients, manner.seconds))
            gap_ms, lost_now = gap_and_lost(cluster)
            gaps.append(gap_ms)
            lost += lost_now
    times, gap = percentiles(times_us), percentiles(gaps)
    return {
        "store": name,
        "replicas": 3,
        "clients": clients,
        "lane": manner.lane,
        "us": times["p50"],
        "p99_us": times["p99"],
        "rps": round(percentiles(rates)["p50"] or 0),
        "gap_ms": gap["p50"],
        "gap_max_ms": gap["max"],
        "lost": lost,
        "kills": manner.rounds,
    }
