"""`llft add` and `llft remove`: one replica more, or one less, while the group serves.

Both wait until it is so, within a bound. Exit status: 0 if it is so, 1 if it is not in time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from llft.cli.arguments import add_group, positive, positive_float
from llft.errors import MisuseError

if TYPE_CHECKING:
    from llft.cli.survey import Group, Member

POLL_INTERVAL_S = 0.02
DEFAULT_TIMEOUT_S = 10.0


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    adding = verbs.add_parser(
        "add",
        help="one more replica",
        description="Start one more replica on this host; it fetches the group's state and follows.",
    )
    removing = verbs.add_parser(
        "remove",
        help="one replica less",
        description="A replica leaves its group and ends. If it is the primary it hands over first.",
    )
    removing.add_argument("--replica", type=positive, required=True, metavar="N", help="which one")
    for parser, perform in ((adding, run_add), (removing, run_remove)):
        add_group(parser)
        parser.add_argument("--timeout", type=positive_float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS")
        parser.set_defaults(run=perform)


def run_add(arguments: argparse.Namespace) -> int:
    """Perform `llft add`; returns the exit status."""
    from llft.runtime.control_client import ask
    from llft.runtime.supervisor.run_directory import the_group

    directory = the_group(arguments.group)
    number = ask(directory.supervisor_socket, {"do": "add"})["replica"]

    def joined(group: Group) -> bool:
        member = _find(group, number)
        return (
            member is not None and member["role"] in ("backup", "primary") and bool(member.get("has_state"))
        )

    if _await(arguments, joined):
        print(f"replica-{number} is a member")
        return 0
    print(
        f"llft: replica-{number} did not join in time; see {directory.log(f'replica-{number}')}",
        file=sys.stderr,
    )
    return 1


def run_remove(arguments: argparse.Namespace) -> int:
    """Perform `llft remove`; returns the exit status."""
    from llft.cli.survey import survey
    from llft.runtime.control_client import ask
    from llft.runtime.supervisor.run_directory import the_group

    directory, number = the_group(arguments.group), arguments.replica
    member = _find(survey(directory), number)
    if member is None:
        raise MisuseError("no-such-replica", "see llft status", replica=number)
    ask(directory.supervisor_socket, {"do": "remove", "replica": number})
    if _await(arguments, lambda group: _find(group, number) is None):
        print(f"replica-{number} left")
        return 0
    print(f"llft: replica-{number} did not leave in time", file=sys.stderr)
    return 1


def _find(group: Group, number: int) -> Member | None:
    return next((member for member in group["members"] if member["replica"] == number), None)


def _await(arguments: argparse.Namespace, holds: Callable[[Group], bool]) -> bool:
    from llft.cli.survey import survey
    from llft.runtime.supervisor.run_directory import the_group

    directory = the_group(arguments.group)
    deadline_s = time.monotonic() + arguments.timeout
    while time.monotonic() < deadline_s:
        if holds(survey(directory)):
            return True
        time.sleep(POLL_INTERVAL_S)
    return False
