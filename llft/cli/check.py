"""`llft check -- python app.py`: can this program be replicated?

Its files are read for imports that are refused, then it is started alone under interposition for a few
seconds, and whatever it asks for that cannot be replicated is reported with the remedy. Exit status: 0 if it
can run, 1 if not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llft.cli.arguments import add_command, add_json, positive_float
from llft.cli.run import DEFAULT_SETTINGS_FILE, group_name, read_settings
from llft.config import Checkpoints, ThreadMode

if TYPE_CHECKING:
    from llft.runtime.settings import GroupSettings
    from llft.runtime.supervisor.program import Program
    from llft.runtime.supervisor.slot import Slot

DEFAULT_SECONDS = 3.0
POLL_INTERVAL_S = 0.05
UNSEEN = "threads side by side: all that they share must be under locks, which nobody can see from here"
REFUSED_CALL = re.compile(r"(?:import_)?not_replicable \((?:name|module)='([^']+)'\): (.+)")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "check",
        help="whether a program can be replicated",
        description="Read a program's imports, start it alone under interposition, and report what cannot be "
        "replicated, with the remedy.",
    )
    parser.add_argument(
        "--seconds",
        type=positive_float,
        default=DEFAULT_SECONDS,
        metavar="S",
        help="how long it runs (default: 3)",
    )
    parser.add_argument(
        "--threads",
        choices=[mode.value for mode in ThreadMode],
        help="how its threads would run (default: token)",
    )
    parser.add_argument(
        "--checkpoints",
        choices=[choice.value for choice in Checkpoints],
        help="the source of states that is asked about (default: what llft run would take)",
    )
    parser.add_argument("--durable", action="store_true", help="it would be run with --durable")
    parser.add_argument("--group", metavar="NAME", help="as for llft run")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"settings (default: {DEFAULT_SETTINGS_FILE} if there)"
    )
    add_json(parser)
    add_command(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.import_scan import scan_program
    from llft.runtime.supervisor.program import resolve

    program = resolve(arguments.command)
    group, without_images = as_it_would_run(arguments)
    imports = scan_program(program.words, group.threads)
    trial = try_program(program, arguments.seconds, group, without_images)
    obstacles = [
        f"{found.file}:{found.line} imports {found.module}: {found.remedy}"
        for found in imports
        if not found.optional
    ]
    obstacles += [f"{name}: {remedy}" for name, remedy in trial["refused"]]
    if trial["exit_status"]:
        obstacles.append(f"it ended with status {trial['exit_status']} after {trial['seconds']} s")
    _print_report(obstacles, trial, sys.stderr if arguments.json else sys.stdout)
    if group.threads is ThreadMode.ORDERED:
        print(UNSEEN, file=sys.stderr if arguments.json else sys.stdout)
    if arguments.json:
        print(json.dumps({"can_run": not obstacles, "obstacles": obstacles, **trial}))
    return 1 if obstacles else 0


def as_it_would_run(arguments: argparse.Namespace) -> tuple[GroupSettings, str]:
    """What `llft run` would take from the settings here, and why its states would be no images ("": they
    would)."""
    from llft.runtime.state.choice import against_images

    settings, name = read_settings(arguments.config), arguments.group or group_name(arguments.command)
    asked: dict[str, object] = {}
    if arguments.threads:
        asked["threads"] = ThreadMode(arguments.threads)
    if arguments.checkpoints:
        asked["checkpoints"] = Checkpoints(arguments.checkpoints)
    settings = settings.with_group(name, **asked)
    return settings.group(name), against_images(settings, name, durable=arguments.durable)


def _print_report(obstacles: list[str], trial: dict[str, Any], stream: Any) -> None:
    for obstacle in obstacles:
        print(f"- {obstacle}", file=stream)
    if trial["exit_status"]:
        print("its last words:", *(f"  | {line}" for line in trial["last_words"]), sep="\n", file=stream)
    if obstacles:
        print("it cannot be replicated as it is", file=stream)
        return
    where = ", ".join(f"{host}:{port}" for host, port in trial["listening"])
    ran = "it ran to its end" if trial["exit_status"] == 0 else f"it ran for {trial['seconds']} s"
    print(f"it can be replicated: {ran}{f', listening on {where}' if where else ''}", file=stream)
    found = trial["checkpoints"]
    print(found["account"] or f"no checkpoints, the log is kept from birth: {found['why']}", file=stream)


def try_program(
    program: Program, seconds: float, group: GroupSettings, without_images: str
) -> dict[str, Any]:
    """Run it as the only replica of a group of its own, in a directory that is gone afterwards."""
    from llft.runtime.settings import Settings, group_id_of
    from llft.runtime.supervisor.halting import halt
    from llft.runtime.supervisor.plan import Plan, environment_of
    from llft.runtime.supervisor.program import make_library
    from llft.runtime.supervisor.run_directory import RunDirectory
    from llft.runtime.supervisor.signals import Interruptions
    from llft.runtime.supervisor.slot import Slot

    with tempfile.TemporaryDirectory(prefix="llft-") as home:
        directory = RunDirectory(Path(home) / "check")
        directory.claim()
        # The name is the directory's, so that two checks at once are two groups.
        name = Path(home).name
        settings = Settings().with_group(name, threads=group.threads, checkpoints=group.checkpoints)
        plan = Plan(
            group=name,
            group_id=group_id_of(name),
            program=program,
            replicas=1,
            library=make_library(directory.path),
            settings=settings.to_json(),
            without_images=without_images,
        )
        slot = Slot("replica", 1, directory.log("replica-1"), directory.socket("replica-1"), founds=True)
        environment = environment_of(plan, directory, slot, founds=True)
        slot.start(program.command(plan.replica_module), environment, fixed=not without_images)
        try:
            found = _observe(slot, seconds)
        finally:
            with Interruptions() as interruptions:
                halt([slot], interruptions)
            directory.release()
        refused = dict(REFUSED_CALL.findall(slot.log.read_text(errors="replace")))
        return {**found, "refused": sorted(refused.items()), "last_words": slot.log_tail()}


def _observe(slot: Slot, seconds: float) -> dict[str, Any]:
    """Until it ends or the time is over. `exit_status` None: it still ran."""
    from llft.errors import PeerError
    from llft.runtime.control_client import ask

    started_s = time.monotonic()
    listening: list[Any] = []
    checkpoints: dict[str, Any] = {}
    status: int | None = None
    while time.monotonic() - started_s < seconds and status is None:
        time.sleep(POLL_INTERVAL_S)
        # It may not answer yet, or any more.
        with contextlib.suppress(PeerError):
            answer = ask(slot.socket, {"do": "status"}, timeout_s=1.0)
            listening, checkpoints = answer["listening"] or listening, answer["checkpoints"]
        status = slot.reap()
    lived_s = round(time.monotonic() - started_s, 1)
    return {
        "exit_status": status,
        "seconds": lived_s,
        "listening": listening,
        "checkpoints": checkpoints_of(checkpoints),
    }


def checkpoints_of(found: dict[str, Any]) -> dict[str, str]:
    """Which source of state the program can use (docs/CHECKPOINTS.md), and if none, why."""
    source = str(found.get("source", "none"))
    why = str(found.get("why") or found.get("why_not") or "")
    return {"source": "none" if why else source, "why": why, "account": str(found.get("account", ""))}
