"""Figure 8: real servers, native and as process groups, as a plain client outside sees them.

They are the programs of the live tests, which are in the source tree and nowhere else. `ratio` is of the
median latency of one client; `tcp_rps` and `llft_rps` are with several. Where backups and primary share the
cores, `cpu_ratio` says what the primary alone could serve: processor time of a request, native to primary.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from llft.cli.measure.applications import APPLICATIONS, DIRECTORY, Application
from llft.cli.measure.comparison import Manner, Point, compare, described, parameters
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import gateway_side, plain_side
from llft.errors import MisuseError


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    if not DIRECTORY.is_dir():
        raise MisuseError("no-applications", "run it in a source tree", path=str(DIRECTORY))
    for name in arguments.applications:
        application = APPLICATIONS[name]
        for replicas in arguments.replicas:
            with (
                plain_side(manner, application.command) as tcp,
                gateway_side(manner, replicas=replicas, serve=application.command) as llft,
            ):
                for placement in manner.placements:
                    point = parameters(manner, placement, application=name, replicas=replicas)
                    point |= _compared(tcp, llft, application, arguments.connections, placement, manner)
                    manner.tell(f"{name}, {replicas} replicas, {placement}: {_told(point)}")
                    yield point


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
