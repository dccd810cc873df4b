"""`llft bench failover`: how long clients wait when the primary dies, stage by stage. `llft bench load`: no
faults at all.

Exit status: 0 if nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from llft.cli.arguments import add_json, positive, positive_float


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "bench", help="measure fail-over, and load", description="Measure real groups under load."
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
    _add_group(failover, pace_ms=50.0)
    load = figures.add_parser(
        "load",
        help="no faults: is anybody suspected?",
        description="Load and no faults: latency, and whether a living replica was taken for dead.",
    )
    load.add_argument("--seconds", type=positive_float, default=60.0, metavar="S", help="default: 60")
    _add_group(load, pace_ms=1.0)
    load.set_defaults(kills=0, signal="KILL")


def _add_group(figure: argparse.ArgumentParser, *, pace_ms: float) -> None:
    figure.add_argument("--replicas", type=int, choices=range(2, 6), default=3, help="default: 3")
    figure.add_argument("--clients", type=positive, default=8, metavar="N", help="default: 8")
    figure.add_argument(
        "--pace-ms",
        type=positive_float,
        default=pace_ms,
        metavar="MS",
        help=f"from a reply to the client's next request, on average (default: {pace_ms:g})",
    )
    figure.add_argument("--config", type=Path, metavar="FILE", help="settings, such as timeouts")
    add_json(figure)
    figure.set_defaults(run=run)


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
