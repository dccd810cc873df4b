"""`llft demo`: a fail-over, told as it happens."""

from __future__ import annotations

import argparse
from importlib import import_module


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "demo",
        help="watch a primary fail and a backup take over, narrated",
        description="Watch a primary fail and a backup take over, narrated. It needs no network.",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, another story")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    # Imported when it is wanted: `llft --help` need not load a world.
    narrate = import_module("llft.simulator.narrate")
    status: int = narrate.main(seed=arguments.seed)
    return status
