"""`llft run`: an ordinary program as a process group on this host, or as one more replica of a group
elsewhere.

Exit status: 0 if the program ended by itself, 1 if it cannot run, 2 for bad usage, 130 and 143 after
Ctrl-C and SIGTERM. Nothing is left running; journals and logs remain in the run directory.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from llft.cli.arguments import add_command, add_replication, directory, positive
from llft.config import Checkpoints, Replication, ThreadMode
from llft.errors import MisuseError

if TYPE_CHECKING:
    from llft.past.history import Past
    from llft.runtime.settings import Settings
    from llft.runtime.supervisor.plan import Plan
    from llft.runtime.supervisor.run_directory import RunDirectory

EXAMPLES = """\
examples:
  llft run --replicas 3 -- python server.py             three replicas and a gateway on this machine
  llft run --group shop -- uvicorn shop:app --port 80   any Python program, by its usual command
  llft run --config llft.toml --join -- python server.py   on the second host: join the group of the first
"""

DEFAULT_SETTINGS_FILE = "llft.toml"
FSYNC = ("never", "always")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "run",
        help="run a program as a process group that survives crashes",
        description="Run an unmodified program as a process group: a primary and its backups, behind "
        "a gateway that listens where the program does. Ctrl-C ends all of it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--group", metavar="NAME", help="the group's name (default: the program's)")
    parser.add_argument(
        "--replicas", "-n", type=positive, metavar="N", help="on this host (default: 3; 1 with --join)"
    )
    parser.add_argument("--join", action="store_true", help="join a group that was founded on another host")
    parser.add_argument(
        "--first", type=positive, default=1, metavar="N", help="number of this host's first replica"
    )
    parser.add_argument("--no-gateway", action="store_true", help="outside clients come in on another host")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"settings (default: {DEFAULT_SETTINGS_FILE} if there)"
    )
    parser.add_argument(
        "--threads",
        choices=[mode.value for mode in ThreadMode],
        help="token: one thread at a time, for every program (default); ordered: side by side, for a program "
        "that computes in C code and keeps all its threads share under locks. Alike on all hosts",
    )
    _add_updates(parser)
    _add_state(parser)
    parser.add_argument(
        "--metrics", type=positive, metavar="PORT", help="serve Prometheus metrics on this local port"
    )
    parser.add_argument("--plain", action="store_true", help="no panel, a line for each event")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    add_command(parser)
    parser.set_defaults(run=run)


def _add_updates(parser: argparse.ArgumentParser) -> None:
    add_replication(parser)
    parser.add_argument(
        "--update-ms",
        type=positive,
        metavar="MS",
        help="semi-passive: backups get the state so often (default: 100)",
    )
    parser.add_argument(
        "--update-operations",
        type=positive,
        metavar="N",
        help="semi-passive: and after so many operations (default: 1000)",
    )


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoints",
        choices=[choice.value for choice in Checkpoints],
        help="where the state of the program comes from, for joining and for dropping old log: its hooks, an "
        "image of its process (at addresses that are not random), or none; auto, the default: hooks if it "
        "has them, else images, if all replicas are on this host and neither --data nor --durable is there",
    )
    parser.add_argument(
        "--data",
        type=directory,
        metavar="DIR",
        help="a directory that is part of the program's state: each replica sees files of its own there",
    )
    parser.add_argument(
        "--durable", action="store_true", help="keep every replica's history on disk, in the run directory"
    )
    parser.add_argument(
        "--restore",
        action="store_true",
        help="go on from the longest history on disk, after all replicas were lost; implies --durable",
    )
    parser.add_argument(
        "--fsync",
        choices=FSYNC,
        default=FSYNC[0],
        help="with --durable: never wait for the disk (default: the history survives the processes), or "
        "always (it survives the host; every reply waits for a write)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.panel import observer_for
    from llft.runtime.supervisor.run_directory import RunDirectory
    from llft.runtime.supervisor.slot import ending_with
    from llft.runtime.supervisor.supervisor import Supervisor

    if arguments.parent is not None:
        import signal

        ending_with(arguments.parent, signal.SIGTERM)()
    directory = RunDirectory.of_group(arguments.group or group_name(arguments.command))
    plan = make_plan(arguments, directory)
    observer = observer_for(sys.stdout, plain=arguments.plain)
    observer.told(f"group {plan.group}: {plan.replicas} replicas; everything about it is in {directory.path}")
    try:
        return Supervisor(plan, directory, observer, metrics_port=arguments.metrics).run()
    finally:
        observer.close()
        if directory.path.exists():
            print(f"journals and logs remain in {directory.path}", file=sys.stderr)


def group_name(command: list[str]) -> str:
    """`python server.py` -> server; `python -m shop.web` -> shop.web; `uvicorn app:app` -> uvicorn."""
    from llft.runtime.supervisor.program import resolve

    words = resolve(command).words
    name = words[1] if words[0] == "-m" else Path(words[0]).name.removesuffix(".py")
    return (
        "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name).lstrip("._-")
        or "program"
    )


def read_settings(path: Path | None) -> Settings:
    """The file named, else the one in the current directory, else the defaults: everything on loopback."""
    from llft.runtime import settings_file
    from llft.runtime.settings import Settings

    if path is None and not Path(DEFAULT_SETTINGS_FILE).exists():
        return Settings()
    return settings_file.load_settings(str(path or DEFAULT_SETTINGS_FILE))


def make_plan(arguments: argparse.Namespace, directory: RunDirectory) -> Plan:
    """Check everything before a process is started for it."""
    from llft.runtime.state.choice import against_images
    from llft.runtime.supervisor.home_key import home_key
    from llft.runtime.supervisor.orders import REPLICA_LIMIT
    from llft.runtime.supervisor.plan import Plan
    from llft.runtime.supervisor.program import make_library, resolve
    from llft.runtime.supervisor.run_directory import REPLICA_NUMBER_MAX

    replicas = arguments.replicas or (1 if arguments.join else 3)
    if replicas > REPLICA_LIMIT or arguments.first + replicas - 1 > REPLICA_NUMBER_MAX:
        remedy = f"at most {REPLICA_LIMIT} on a host, and none with a number above {REPLICA_NUMBER_MAX}"
        raise MisuseError("too-many-replicas", remedy, replicas=replicas, first=arguments.first)
    settings, durable = settings_for(arguments, directory.group), arguments.durable or arguments.restore
    if arguments.join and settings.is_local:
        raise MisuseError("join-on-loopback", "name the interface in llft.toml (--config)")
    program = resolve(arguments.command)
    os.makedirs(directory.path, mode=0o700, exist_ok=True)
    if settings.transport.authenticate and not settings.transport.key_file:
        settings = settings.with_key_file(str(home_key(directory.path.parent)))
    return Plan(
        group=directory.group,
        group_id=settings.group(directory.group).group_id,
        program=program,
        replicas=replicas,
        library=make_library(directory.path),
        settings=settings.to_json(),
        endpoints=settings.endpoints(),
        founds=not arguments.join,
        local=settings.is_local,
        gateway=settings.group(directory.group).gateway and not arguments.no_gateway,
        first_replica=arguments.first,
        durable=durable,
        sync=arguments.fsync == "always",
        past=history_for(arguments, directory),
        data=settings.group(directory.group).data,
        without_images=against_images(settings, directory.group, durable=durable),
    )


def settings_for(arguments: argparse.Namespace, group: str) -> Settings:
    """What the file says, and the command line above it."""
    settings = read_settings(arguments.config)
    kinds = {"threads": ThreadMode, "checkpoints": Checkpoints, "replication": Replication}
    asked = {name: getattr(arguments, name) for name in kinds}
    given: dict[str, object] = {name: kinds[name](value) for name, value in asked.items() if value}
    settings = settings.with_updates(interval_ms=arguments.update_ms, operations=arguments.update_operations)
    if arguments.data is not None:
        given["data"] = str(arguments.data.absolute())
    if given:
        settings = settings.with_group(group, **given)
    found = settings.group(group)
    if found.obstacle:
        raise MisuseError("settings-do-not-fit", found.obstacle, group=group)
    if found.replication is Replication.SEMI_PASSIVE and (arguments.durable or arguments.restore):
        remedy = "a semi-passive backup keeps no history on disk: run it semi-active, or without --durable"
        raise MisuseError("settings-do-not-fit", remedy, group=group)
    return settings


def history_for(arguments: argparse.Namespace, directory: RunDirectory) -> Past | None:
    """From which the group goes on; None: it begins."""
    from llft.runtime.state.history import longest

    if not (arguments.durable or arguments.restore):
        return None
    past, complaints = longest(directory.durable)
    for complaint in complaints:
        print(f"llft: a history cannot be used: {complaint}", file=sys.stderr)
    if arguments.restore and past is None:
        remedy = "every history here is damaged" if complaints else "run it with --durable first"
        raise MisuseError("no-history", remedy, directory=str(directory.durable))
    if past is not None and not arguments.restore and not arguments.join:
        remedy = "--restore goes on with it; to begin anew, remove it"
        raise MisuseError("history-on-disk", remedy, directory=str(directory.durable))
    return past if arguments.restore else None
