"""Figure 1: latency against message size. Figure 3: against the number of replicas."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from llft.cli.measure.comparison import Manner, Point, compare, described, parameters
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import group_side, plain_side


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    with plain_side(manner) as tcp:
        for replicas in arguments.replicas:
            for client_replicas in arguments.client_replicas:
                with group_side(manner, replicas=replicas, client_replicas=client_replicas) as llft:
                    own = {"replicas": replicas, "client_replicas": client_replicas}
                    yield from _sizes(tcp, llft, arguments.sizes, own, manner)


def _sizes(tcp: Side, llft: Side, sizes: list[int], own: dict[str, int], manner: Manner) -> Iterator[Point]:
    for placement in manner.placements:
        for size in sizes:
            found = parameters(manner, placement, size=size, clients=1, **own)
            found |= compare(tcp, llft, Workload({"size": size}), placement, manner)
            replicas = f"{own['client_replicas']}+{own['replicas']} replicas"
            manner.tell(f"{size} B, {replicas}, {placement}: {described(found)}")
            yield found
