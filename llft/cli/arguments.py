"""What several verbs' arguments have in common."""

from __future__ import annotations

import argparse
from pathlib import Path

from llft.config import Replication


def add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", metavar="NAME", help="which group (default: the only one that runs)")


def add_json(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--json", action="store_true", help="one object as the last line of standard output")


def add_command(parser: argparse.ArgumentParser) -> None:
    """The user's command, after `--`; `program.resolve` says what to do if there is none."""
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the program's usual command, after --")


def add_replication(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replication",
        choices=[kind.value for kind in Replication],
        help="semi-active: backups execute what the primary does (default); semi-passive: they hold its "
        "state, log what follows, and execute nothing until one of them takes over",
    )


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def positive_float(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def directory(text: str) -> Path:
    """No name at all is a variable that was not set, and not the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(text)


def add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", metavar="URL", help="a Spark cluster, spark://HOST:PORT (default: this machine)"
    )
    parser.add_argument("--memory", default="2g", metavar="SIZE", help="of Spark's driver (default: 2g)")
