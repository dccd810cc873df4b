"""`llft kill`: a signal to a replica or to the gateway, to see what happens then.

The signal goes to the very process that the status named: through a descriptor of it, and only if it is
still a child of the supervisor, since pid numbers are used again.
"""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

from llft.cli.arguments import add_group, positive
from llft.errors import MisuseError


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "kill",
        help="kill (or stop, or continue) a replica",
        description="Send a signal to a replica's process. A killed replica is started again.",
    )
    add_group(parser)
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--primary", action="store_true", help="the primary, whichever it is")
    whom.add_argument("--replica", type=positive, metavar="N", help="replica N")
    whom.add_argument("--gateway", action="store_true", help="the gateway: breaks the clients' connections")
    parser.add_argument(
        "--signal", default="KILL", metavar="NAME", help="KILL (default), STOP, CONT, TERM, ..."
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.survey import survey
    from llft.runtime.supervisor.orders import signal_number
    from llft.runtime.supervisor.run_directory import the_group

    number = signal_number(arguments.signal)
    group = survey(the_group(arguments.group))
    name, pid = _target(arguments, group)
    send_signal(pid, number, parent=group["supervisor_pid"])
    print(f"{signal.Signals(number).name} to {name} (pid {pid})")
    return 0


def _target(arguments: argparse.Namespace, group: dict[str, Any]) -> tuple[str, int]:
    from llft.cli.survey import require_primary

    processes = group["gateways" if arguments.gateway else "members"]
    process: dict[str, Any] | None
    if arguments.primary:
        process = require_primary(group)
    elif arguments.gateway:
        process = processes[0] if processes else None
    else:
        process = next((found for found in processes if found["replica"] == arguments.replica), None)
    if process is None or process["pid"] is None:
        raise MisuseError("no-process", "see llft status", known=[found["name"] for found in processes])
    return process["name"], process["pid"]


def send_signal(pid: int, number: int, *, parent: int) -> None:
    """To the child `pid` of `parent`, and to no other process."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise MisuseError("no-process", "it has ended already", pid=pid) from None
    try:
        if _parent_of(pid) != parent:
            raise MisuseError("no-process", "it has ended already", pid=pid)
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        raise MisuseError("no-process", "it has ended already", pid=pid) from None
    finally:
        os.close(descriptor)


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name in parentheses may hold anything; the fields after it do not.
            return int(file.read().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
