"""`llft bench failover`: how long clients wait when the primary dies, stage by stage.

Exit status: 0 if nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from llft.cli.arguments import add_json, positive, positive_float


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "bench", help="measure fail-over", description="Measure real groups under load."
    )
    figures = parser.add_subparsers(title="figures", dest="figure", metavar="FIGURE", required=True)
    failover = figures.add_parser(
        "failover",
        help="kill the primary many times",
        description="Kill the primary many times under load; what the clients saw, and what each stage took.",
    )
    failover.add_argument("--kills", type=positive, default=100, metavar="N", help="at most (default: 100)")
    failover.add_argument(
        "--seconds", type=positive_float, metavar="S", help="begin no new kill after so long"
    )
    failover.add_argument(
        "--signal", default="KILL", metavar="NAME", help="KILL (default), or STOP: a silent host"
    )
    failover.add_argument("--replicas", type=int, choices=range(2, 6), default=3, help="default: 3")
    failover.add_argument("--clients", type=positive, default=8, metavar="N", help="default: 8")
    failover.add_argument(
        "--pace-ms", type=positive_float, default=1.0, metavar="MS", help="between a client's requests"
    )
    failover.add_argument("--config", type=Path, metavar="FILE", help="settings, such as timeouts")
    add_json(failover)
    failover.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.live_demo import perform
    from llft.cli.trial import TrialOptions
    from llft.runtime.supervisor.orders import signal_number

    options = TrialOptions(
        kills=arguments.kills,
        replicas=arguments.replicas,
        clients=arguments.clients,
        pace_ms=arguments.pace_ms,
        signal=signal_number(arguments.signal),
        seconds=arguments.seconds,
        config=arguments.config,
    )
    return perform(options, as_json=arguments.json)
