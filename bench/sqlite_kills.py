"""A SQLite-backed HTTP server whose replicas are killed at random moments: what becomes of its databases?

    python bench/sqlite_kills.py [--replication KIND] [--kills N] [--seed N] [--json]

Three replicas with a data directory each, checkpoints by hooks, clients that write all the time. As soon as
two replicas could serve, and a random while later, one is killed: mostly the primary, else whoever, also one
that is just joining. In the end every write that was acknowledged must be there, once, in the order in which
the clients saw it; `PRAGMA integrity_check` says ok; and the databases of all replicas are equal. A
semi-passive backup has none: so the primary is killed until each of them has been promoted, and their
databases are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from llft.cli.kill import send_signal
from llft.cli.survey import primary_of
from llft.config import Replication
from tests.live.application_world import (
    BETWEEN_KILLS,
    REPLICAS,
    Clients,
    ReplicatedRun,
    assert_journals_hold,
    replicated,
)
from tests.live.test_checkpoints import LOG_KB, said
from tests.live.test_data_directory import FILE, OneRequest, assert_all_have, await_rest, rows

CLIENT_COUNT = 2
PAUSE_S = (0.0, 2.0)
PRIMARY_SHARE = 0.7
EVERYTHING = "SELECT * FROM history ORDER BY sequence"
ENOUGH = 2
"""Replicas that could serve: when one is killed, one is left."""


def kill_somebody(run: ReplicatedRun, rng: random.Random) -> str:
    """Returns the role of the victim."""

    def enough(group: dict[str, Any]) -> bool:
        whole = [each for each in group["members"] if each.get("has_state")]
        return primary_of(group) is not None and len(whole) >= ENOUGH

    run.until("recover", enough)
    time.sleep(rng.uniform(*PAUSE_S))
    group = run.until("recover", enough)
    living = [each for each in group["members"] if each["pid"] is not None]
    victim = primary_of(group) if rng.random() < PRIMARY_SHARE else rng.choice(living)
    assert victim is not None
    send_signal(victim["pid"], signal.SIGKILL, parent=group["supervisor_pid"])
    return str(victim.get("role") or "starting")


def databases_of_all(run: ReplicatedRun) -> list[list[tuple[Any, ...]]]:
    """Of a semi-passive group: of its primary, and of every backup, which is promoted for it."""
    found = []
    seen: set[str] = set()
    while len(seen) < REPLICAS:
        group = run.await_whole()
        primary = next(each["name"] for each in group["members"] if each["role"] == "primary")
        found.append(rows(run.directory.data / primary / FILE, EVERYTHING))
        seen.add(primary)
        run.kill_primary()
    return found


def endure(run: ReplicatedRun, arguments: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(arguments.seed)
    began_s = time.monotonic()
    victims: dict[str, int] = {}
    clients = Clients(CLIENT_COUNT, lambda: OneRequest(run.port))
    clients.await_progress(BETWEEN_KILLS)
    for number in range(1, arguments.kills + 1):
        role = kill_somebody(run, rng)
        victims[role] = victims.get(role, 0) + 1
        if clients.complaints:
            break
        if number % 10 == 0:
            print(f"{number} kills, {len(clients.entries)} writes", file=sys.stderr, flush=True)
    clients.await_progress(BETWEEN_KILLS)
    entries = clients.stop()
    expected = [entry.request for entry in entries]
    if arguments.replication == Replication.SEMI_PASSIVE.value:
        found = databases_of_all(run)
    else:
        await_rest(run)
        found = [rows(run.directory.data / f"replica-{n}" / FILE, EVERYTHING) for n in range(1, REPLICAS + 1)]
    assert all(each == found[0] for each in found), "the databases differ"
    assert [row[1:4] for row in found[0]] == expected, "not every write is there, once, in order"
    return {
        "replication": arguments.replication,
        "kills": arguments.kills,
        "victims": victims,
        "writes": len(entries),
        "databases": len(found),
        "joined_by_state": said(run).count("bytes of state by hooks"),
        "seconds": round(time.monotonic() - began_s, 1),
        "entries": entries,
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    passive = arguments.replication == Replication.SEMI_PASSIVE.value
    with tempfile.TemporaryDirectory(prefix="llft-") as home:
        data = Path(home) / "data"
        data.mkdir()
        with sqlite3.connect(data / "seed.db") as database:
            database.execute("CREATE TABLE old (word TEXT)")
            database.execute("INSERT INTO old VALUES ('kept')")
        words = ["sqlite_http.py", str(data), "close", *(["wal"] if passive else [])]
        more = ("--data", str(data), "--replication", arguments.replication)
        with replicated(Path(home), "sqlite", words, checkpoint_log_kb=LOG_KB, more=more) as run:
            found = endure(run, arguments)
        entries = found.pop("entries")
        if not passive:
            assert_all_have(run, [f"replica-{n}" for n in range(1, REPLICAS + 1)], entries, data)
        assert_journals_hold(run)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = [kind.value for kind in Replication]
    parser.add_argument("--replication", choices=kinds, default=kinds[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the moments and of who is killed")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments)
    if arguments.json:
        print(json.dumps(found))
    else:
        print(f"{found['replication']}: {found['kills']} kills ({found['victims']})")
        print(f"  {found['writes']} writes acknowledged, all there, once, in order")
        print(f"  {found['databases']} databases equal, integrity ok")
        print(f"  {found['joined_by_state']} joins by state, {found['seconds']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
