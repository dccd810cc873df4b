"""`llft status`: the groups that run on this host, their members, and how they are.

Exit status: 0, also if none runs.
"""

from __future__ import annotations

import argparse
import json

from llft.cli.arguments import add_json


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "status",
        help="the groups on this host: members, roles, views, lag",
        description="The groups that run on this host: members, roles, precedence, rank, view, lag.",
    )
    parser.add_argument("--group", metavar="NAME", help="only this one")
    how = parser.add_mutually_exclusive_group()
    add_json(how)
    how.add_argument("--prometheus", action="store_true", help="in the text format of Prometheus")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.panel import group_lines
    from llft.cli.survey import survey
    from llft.runtime.supervisor.metrics import prometheus_text
    from llft.runtime.supervisor.run_directory import llft_home, running_groups, the_group

    found = running_groups() if arguments.group is None else [the_group(arguments.group)]
    groups = [survey(directory) for directory in found]
    if arguments.json:
        print(json.dumps({"groups": groups}))
    elif arguments.prometheus:
        print(prometheus_text(groups), end="")
    elif not groups:
        print(f"no group runs (looked in {llft_home()})")
    else:
        print("\n\n".join("\n".join(group_lines(group)) for group in groups))
    return 0
