"""One row for each store. One that is not installed is left out, and that is told."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from llft.cli.measure.comparison import Manner, Point
from llft.cli.measure.peers import etcd_store, group_client, llft_store, pysyncobj_store, redis_store
from llft.cli.measure.peers.workload import Start, with_plain_clients
from llft.cli.percentiles import percentiles
from llft.errors import MisuseError

STORES: Mapping[str, Start] = {
    "llft": with_plain_clients(llft_store.started),
    "llft-group": group_client.started,
    "redis": with_plain_clients(redis_store.started),
    "etcd": with_plain_clients(etcd_store.started),
    "pysyncobj": with_plain_clients(pysyncobj_store.started),
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
            STORES[name](Path(directory), manner) as workload,
        ):
            times_us += workload.latencies_us(manner.seconds)
            rates.append(workload.rate(clients, manner.seconds))
            gap_ms, lost_now = workload.gap_and_lost()
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
