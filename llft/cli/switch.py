"""`llft switch`: the primary hands over to a backup, deliberately and without a fault.

Exit status: 0 if another replica is the primary, 1 if none became it in time.
"""

from __future__ import annotations

import argparse
import sys
import time

from llft.cli.arguments import add_group, positive_float

POLL_INTERVAL_S = 0.02


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "switch",
        help="the primary hands over to a backup",
        description="The primary hands over to the backup of rank 2, deliberately; no request is lost.",
    )
    add_group(parser)
    parser.add_argument("--timeout", type=positive_float, default=5.0, metavar="SECONDS")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.survey import primary_of, require_primary, survey
    from llft.errors import MisuseError
    from llft.runtime.control_client import ask
    from llft.runtime.supervisor.run_directory import the_group

    directory = the_group(arguments.group)
    group = survey(directory)
    former = require_primary(group)
    if sum(member["role"] == "backup" for member in group["members"]) == 0:
        raise MisuseError("no-backup", "add a replica first: llft add", group=group["group"])
    ask(directory.socket(former["name"]), {"do": "switch"})
    deadline_s = time.monotonic() + arguments.timeout
    while time.monotonic() < deadline_s:
        primary = primary_of(survey(directory))
        if primary is not None and primary["birth"] != former["birth"]:
            print(f"{primary['name']} is the primary, view {primary['view']}; it was {former['name']}")
            return 0
        time.sleep(POLL_INTERVAL_S)
    print(f"llft: no other replica became the primary within {arguments.timeout:g} s", file=sys.stderr)
    return 1
