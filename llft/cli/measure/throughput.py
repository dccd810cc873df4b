"""Figure 2: throughput against the number of clients, without think time.

Plain TCP is the better of two servers, one with a thread for each connection and one that selects; LLFT runs
both, too. `ratio` is of requests per second here: more is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack

from llft.cli.measure.comparison import Manner, Point, compare, parameters
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import ECHO, SELECT, THREADS, group_side, plain_side

KINDS = (THREADS, SELECT)
Pair = tuple[Side, Side]


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    for replicas in arguments.replicas:
        with ExitStack() as stack:
            pairs = {kind: _pair(stack, kind, replicas, manner) for kind in KINDS}
            for placement in manner.placements:
                for clients in arguments.clients:
                    workload = Workload({"size": arguments.size}, connections=clients, crowd=True)
                    found = {kind: compare(*pairs[kind], workload, placement, manner) for kind in KINDS}
                    point = parameters(
                        manner, placement, size=arguments.size, clients=clients, replicas=replicas
                    )
                    point |= {"client_replicas": 1, **better_of(found)}
                    manner.tell(f"{clients} clients, {replicas} replicas, {placement}: {_described(point)}")
                    yield point


def _pair(stack: ExitStack, kind: str, replicas: int, manner: Manner) -> Pair:
    tcp = stack.enter_context(plain_side(manner, ECHO[kind]))
    return tcp, stack.enter_context(
        group_side(manner, replicas=replicas, client_replicas=1, serve=ECHO[kind])
    )


def better_of(found: dict[str, Point]) -> Point:
    """The fastest of each side."""
    tcp = min(KINDS, key=lambda kind: found[kind]["tcp_us"])
    llft = min(KINDS, key=lambda kind: found[kind]["llft_us"])
    tcp_us, llft_us = found[tcp]["tcp_us"], found[llft]["llft_us"]
    return {
        "tcp_us": tcp_us,
        "llft_us": llft_us,
        "tcp_rps": round(1e6 / tcp_us),
        "llft_rps": round(1e6 / llft_us),
        "ratio": round(tcp_us / llft_us, 3),
        "spread": found[llft]["spread"],
        "tcp_server": tcp,
        "llft_server": llft,
        "tcp_cpu_us": found[tcp]["tcp_cpu_us"],
        "llft_cpu_us": found[llft]["llft_cpu_us"],
        "rounds": min(each["rounds"] for each in found.values()),
        "disturbed": sum(each["disturbed"] for each in found.values()),
        "trusted": all(each["trusted"] for each in found.values()),
    }


def _described(point: Point) -> str:
    return (
        f"TCP {point['tcp_rps']}/s ({point['tcp_server']}), LLFT {point['llft_rps']}/s "
        f"({point['llft_server']}): {point['ratio']:.2f} times"
    )
