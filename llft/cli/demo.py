"""`llft demo`: a fail-over, told as it happens: of real processes, or simulated and narrated.

Exit status: 0 if nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from llft.cli.arguments import add_json, positive

DEFAULT_KILLS = 5


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "demo",
        help="an unmodified server whose primary is killed again and again, while clients count",
        description="Run an unmodified server three times, drive it with concurrent TCP clients, kill its "
        "primary again and again, and see whether anything is lost. All on this machine.",
    )
    parser.add_argument(
        "--kills", type=positive, default=DEFAULT_KILLS, metavar="N", help="how often (default: 5)"
    )
    parser.add_argument(
        "--replicas", type=int, choices=range(2, 6), default=3, help="of the server (default: 3)"
    )
    parser.add_argument(
        "--clients", type=positive, default=8, metavar="N", help="concurrent ones (default: 8)"
    )
    add_json(parser)
    parser.add_argument(
        "--simulated", action="store_true", help="no processes: a simulated fail-over, narrated"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="with --simulated: another story")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    # Imported when it is wanted: `llft --help` need not load a world.
    if arguments.simulated:
        narrate = import_module("llft.simulator.narrate")
        status: int = narrate.main(seed=arguments.seed)
        return status
    from llft.cli.live_demo import perform
    from llft.cli.trial import TrialOptions

    options = TrialOptions(kills=arguments.kills, replicas=arguments.replicas, clients=arguments.clients)
    return perform(options, as_json=arguments.json, audited=True)
