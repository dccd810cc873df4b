"""One row for each store. One that is not installed is left out, and that is told."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    """In turns: what the machine does in one round it does to all of them. A round of a store is a cluster of
    its own, and one kill."""
    measured = {name: _Measured() for name in arguments.stores}
    for _ in range(manner.rounds):
        for name in list(measured):
            try:
                _measure(name, measured[name], arguments.connections, manner)
            except MisuseError as error:
                del measured[name]
                manner.tell(f"{name} is left out: {error}")
    for name, found in measured.items():
        point = found.point(name, arguments.connections, manner)
        manner.tell(
            f"{name}: p50 {point['us']:.0f} us, {point['rps']} writes/s with {point['clients']} clients, "
            f"fail-over {point['gap_ms']:.0f} ms (at most {point['gap_max_ms']:.0f}), lost {point['lost']}"
        )
        yield point


@dataclass
class _Measured:
    times_us: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    lost: int = 0

    def point(self, name: str, clients: int, manner: Manner) -> Point:
        times, gap = percentiles(self.times_us), percentiles(self.gaps_ms)
        return {
            "store": name,
            "replicas": 3,
            "clients": clients,
            "lane": manner.lane,
            "us": times["p50"],
            "p99_us": times["p99"],
            "rps": round(percentiles(self.rates)["p50"] or 0),
            "gap_ms": gap["p50"],
            "gap_max_ms": gap["max"],
            "lost": self.lost,
            "kills": manner.rounds,
        }


def _measure(name: str, measured: _Measured, clients: int, manner: Manner) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="llft-peer-") as directory,
        STORES[name](Path(directory), manner) as workload,
    ):
        measured.times_us += workload.latencies_us(manner.seconds)
        measured.rates.append(workload.rate(clients, manner.seconds))
        gap_ms, lost = workload.gap_and_lost()
        measured.gaps_ms.append(gap_ms)
        measured.lost += lost
