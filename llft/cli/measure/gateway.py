"""Figure 7: what a plain client outside sees, through the gateway, by the level of output commit (D-10)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from llft.cli.measure.comparison import Manner, Point, compare, described, parameters
from llft.cli.measure.side import Workload
from llft.cli.measure.sides import gateway_side, plain_side


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    with plain_side(manner) as tcp:
        for replicas in arguments.replicas:
            for level in arguments.output_commit:
                settings = f"output_commit = {level}"
                with gateway_side(manner, replicas=replicas, settings=settings) as llft:
                    for placement in manner.placements:
                        for size in arguments.sizes:
                            own = {"size": size, "replicas": replicas, "output_commit": level, "clients": 1}
                            found = parameters(manner, placement, **own)
                            found |= compare(tcp, llft, Workload({"size": size}), placement, manner)
                            manner.tell(f"{size} B, output commit {level}, {placement}: {described(found)}")
                            yield found
