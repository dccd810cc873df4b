"""The applications of the live tests with checkpoints on: five fail-overs and two joins of each, under load.

    python bench/applications_with_checkpoints.py [NAME ...] [--kills N] [--joins N] [--json]

`llft check` is asked first which source of states each program can use. Then it runs as three replicas that
take checkpoints every few kilobytes of log. Its primary is killed again and again, each time after every
replica has a verified state; then replicas are added, and removed when they are members. Every reply is
compared with those of a plain run that is given the same requests in the same order, the last state too, and
the journals are judged, as in tests/live/test_applications.py.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from llft.cli.free_port import free_port
from llft.runtime.control_client import ask
from tests.live import test_three_tiers as tiers
from tests.live.application_world import (
    BETWEEN_KILLS,
    CLIENTS,
    ROOT,
    Clients,
    ReplicatedRun,
    Speaker,
    assert_journals_hold,
    assert_like_unreplicated,
    command_of,
    replicated,
)
from tests.live.test_applications import SERVERS
from tests.live.test_checkpoints import LOG_KB, OneRequest, await_dropped, said
from tests.live.world import TIMEOUTS

IMAGE, HOOKS = "image", "hooks"
CHECK_S = 10
"""By then a program listens, on a busy machine, too."""
REQUESTS, CLIENT_THREADS = 3000, 2
"""Of each thread of the replicated client: it must have much to ask yet at the last kill."""


class Case(NamedTuple):
    words: Sequence[str]
    speak: Callable[[int], Speaker]
    source: str = IMAGE


CASES = {name: Case(words, speak) for name, (words, speak, _) in SERVERS.items()}
CASES["kv-hooked"] = Case(["kv_hooked.py"], OneRequest, HOOKS)
CLIENT = "requests-client"


def source_by_check(command: Sequence[str], source: str) -> str:
    """What `llft check` says that the program can use."""
    check = [sys.executable, "-m", "llft.cli.main", "check", "--json", "--seconds", str(CHECK_S)]
    command = [*check, "--checkpoints", source, "--", *command]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert not finished.returncode, finished.stderr
    found = json.loads(finished.stdout.splitlines()[-1])["checkpoints"]
    return str(found["source"]) if not found["why"] else f"none: {found['why']}"


def add_and_remove(run: ReplicatedRun) -> float:
    """How long it took from the order to the member that could take over, in seconds."""
    began_s = time.monotonic()
    number = ask(run.directory.supervisor_socket, {"do": "add"})["replica"]

    def member(group: dict[str, Any]) -> dict[str, Any]:
        return next((each for each in group["members"] if each["replica"] == number), {})

    def joined(group: dict[str, Any]) -> object:
        return member(group).get("role") == "backup" and member(group).get("has_state")

    run.until("join", joined)
    took_s = time.monotonic() - began_s
    ask(run.directory.supervisor_socket, {"do": "remove", "replica": number})
    run.until("leave", lambda group: not member(group))
    return took_s


def counted(run: ReplicatedRun, source: str) -> dict[str, Any]:
    """What the replicas' logs say of checkpoints."""
    log = said(run)
    joined = log.count("as an image" if source == IMAGE else "bytes of state by hooks")
    pauses = [float(ms) for ms in re.findall(r"pause ([\d.]+) ms", log)]
    refused = re.findall(r"no checkpoint: (.*)", log)
    return {
        "joins_by_state": joined,
        "checkpoints": len(pauses),
        "pause_ms": max(pauses, default=0.0),
        "refused": len(refused),
        "why": sorted(set(refused)),
    }


def try_server(name: str, home: Path, kills: int, joins: int) -> dict[str, Any]:
    case = CASES[name]
    how = {"checkpoints": case.source, "checkpoint_log_kb": LOG_KB}
    with replicated(home, name, case.words, **how) as run:
        clients = Clients(CLIENTS, lambda: case.speak(run.port))
        for _ in range(kills):
            clients.await_progress(BETWEEN_KILLS)
            await_dropped(run, case.source)
            run.kill_primary()
        await_dropped(run, case.source)
        joins_s = [add_and_remove(run) for _ in range(joins)]
        clients.await_progress(BETWEEN_KILLS)
        entries = clients.stop()
        last = case.speak(run.port)
        dump = last.dump()
        last.close()
        run.await_whole()
        found = counted(run, case.source)
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, case.words, case.speak)
    return {"requests": len(entries), "join_s": joins_s, **found}


def try_client(home: Path, kills: int, joins: int) -> dict[str, Any]:
    """A program whose connections lead outwards. Its server is a group, too, and loses its primary once."""
    tiers.REQUESTS, tiers.THREADS = REQUESTS, CLIENT_THREADS
    with ExitStack() as stack:
        how = {"checkpoints": IMAGE, "checkpoint_log_kb": LOG_KB}
        server = stack.enter_context(replicated(home, "server", ["http_plain.py"], **how))
        port = free_port()
        config = home / "llft.toml"
        config.write_text(
            f'[groups."{server.group}"]\nendpoints = ["127.0.0.1:{server.port}"]\n'
            f'[groups."client-{port}"]\ncheckpoint_log_kb = {LOG_KB}\n{TIMEOUTS}'
        )
        words = tiers.client_words(server.port)
        client = ReplicatedRun(home, "client", words, config=config, checkpoints=IMAGE, port=port)
        stack.callback(client.end)
        for run in (client, server, *(kills - 1) * [client]):
            await_dropped(run, IMAGE)
            assert tiers.report_of(client)["finished"] == 0, "the client ended before the last kill"
            run.kill_primary()
        await_dropped(client, IMAGE)
        joins_s = [add_and_remove(client) for _ in range(joins)]
        tiers.until("finish", lambda: tiers.report_of(client)["finished"] == tiers.THREADS, 600)
        report, dump = tiers.report_of(client), tiers.dump_of(server.port)
        found = counted(client, IMAGE)
    tiers.assert_each_once(report, dump)
    assert_journals_hold(server, client)
    return {"requests": len(report["seen"]), "join_s": joins_s, **found}


def attempt(name: str, kills: int, joins: int) -> dict[str, Any]:
    began_s = time.monotonic()
    words = tiers.client_words(free_port()) if name == CLIENT else CASES[name].words
    source = IMAGE if name == CLIENT else CASES[name].source
    with tempfile.TemporaryDirectory(prefix="llft-") as home:
        try:
            claimed = source_by_check(command_of(words, free_port()), source)
            assert claimed == source, f"llft check says {claimed}"
            path = Path(home)
            if name == CLIENT:
                found = try_client(path, kills, joins)
            else:
                found = try_server(name, path, kills, joins)
        except Exception as error:  # noqa: BLE001 (the others have their turn all the same)
            traceback.print_exc()
            return {"source": source, "passed": False, "failure": repr(error)[:2000]}
    seconds = round(time.monotonic() - began_s, 1)
    return {"source": source, "passed": True, "kills": kills, "seconds": seconds, **found}


def line_of(name: str, found: dict[str, Any]) -> str:
    if not found["passed"]:
        return f"{name:<20} {found['source']:<6} FAILED: {found['failure'].splitlines()[0]}"
    joins = ", ".join(f"{seconds:.1f}" for seconds in found["join_s"])
    return (
        f"{name:<20} {found['source']:<6} {found['kills']:>5} {found['requests']:>8} "
        f"{found['joins_by_state']:>6} {found['checkpoints']:>11} {found['pause_ms']:>8.1f} "
        f"{found['refused']:>7}  {joins}{'; '.join(['', *found['why']])}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join([*CASES, CLIENT])}")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--joins", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    everything = [*CASES, CLIENT]
    if unknown := set(arguments.names) - set(everything):
        parser.error(f"no such application: {', '.join(sorted(unknown))}")
    print(
        f"{'application':<20} {'source':<6} {'kills':>5} {'requests':>8} {'joins':>6} {'checkpoints':>11} "
        f"{'pause ms':>8} {'refused':>7}  added, s",
        file=sys.stderr,
    )
    found = {}
    for name in arguments.names or everything:
        found[name] = attempt(name, arguments.kills, arguments.joins)
        print(line_of(name, found[name]), file=sys.stderr if arguments.json else sys.stdout, flush=True)
    if arguments.json:
        print(json.dumps(found))
    return 0 if all(each["passed"] for each in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
