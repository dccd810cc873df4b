"""Figure 8: real servers, native and as process groups.

They are the programs of the live tests, which are in the source tree and nowhere else. `client` says who
asks the process group: a plain client, through its gateway, or the same one as a process group of one
replica, which talks with it directly, as the paper's clients do. Natively it is a plain client that asks.
`ratio` is of the median latency of one client; `tcp_rps` and `llft_rps` are with several. Where backups and
primary share the cores, `cpu_ratio` says what the primary alone could serve: processor time of a request,
native to primary.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from llft.cli.measure.applications import APPLICATIONS, DIRECTORY, Application
from llft.cli.measure.catalogue import GROUP
from llft.cli.measure.comparison import Manner, Point, compare, described, parameters
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import gateway_side, group_side, plain_side
from llft.errors import MisuseError


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    if not DIRECTORY.is_dir():
        raise MisuseError("no-applications", "run it in a source tree", path=str(DIRECTORY))
    for name in arguments.applications:
        for replicas in arguments.replicas:
            for client in arguments.client:
                own = {"application": name, "client": client, "replicas": replicas}
                yield from _placements(APPLICATIONS[name], arguments.connections, own, manner)


def _placements(
    application: Application, clients: int, own: dict[str, Any], manner: Manner
) -> Iterator[Point]:
    with (
        plain_side(manner, application.command) as tcp,
        _replicated(application, own["client"], own["replicas"], manner) as llft,
    ):
        for placement in manner.placements:
            point = parameters(manner, placement, **own)
            point |= _compared(tcp, llft, application, clients, placement, manner)
            words = f"{own['application']}, {own['replicas']} replicas, {own['client']} client, {placement}"
            manner.tell(f"{words}: {_told(point)}")
            yield point


def _replicated(
    application: Application, client: str, replicas: int, manner: Manner
) -> AbstractContextManager[Side]:
    if client == GROUP:
        return group_side(manner, replicas=replicas, client_replicas=1, serve=application.command)
    return gateway_side(manner, replicas=replicas, serve=application.command)


def _compared(
    tcp: Side, llft: Side, application: Application, clients: int, placement: str, manner: Manner
) -> Point:
    request = application.request()
    alone = compare(tcp, llft, Workload(request), placement, manner)
    crowd = compare(tcp, llft, Workload(request, connections=clients, crowd=True), placement, manner)
    return {
        **alone,
        "clients": clients,
        "tcp_rps": round(1e6 / crowd["tcp_us"]),
        "llft_rps": round(1e6 / crowd["llft_us"]),
        "cpu_ratio": round(crowd["tcp_cpu_us"] / crowd["llft_cpu_us"], 3),
        "trusted": alone["trusted"] and crowd["trusted"],
    }


def _told(point: Point) -> str:
    rates = f"{point['tcp_rps']}/s and {point['llft_rps']}/s with {point['clients']} clients"
    return f"{described(point)}; {rates}; by the primary's processor time {point['cpu_ratio']:.2f}"
