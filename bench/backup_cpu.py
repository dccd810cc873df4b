"""What backups cost: processor time of a server's replicas, semi-active beside semi-passive.

    python bench/backup_cpu.py [--requests N] [--rounds N] [--json]

A server with hooks that hashes for some milliseconds a request, as three replicas behind a gateway, and one
client. Processor time is that of the kernel's books (/proc), from the first request to the last. The bar is
that a semi-passive backup takes less than a third of a semi-active one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llft.cli.children import end, ending_with_us
from llft.cli.free_port import free_port
from llft.cli.survey import all_joined, survey
from llft.config import Replication
from llft.errors import PeerError
from llft.runtime.supervisor.run_directory import RunDirectory

REPLICAS = 3
PATIENCE_S = 60.0
POLL_INTERVAL_S = 0.05
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STATE = {"digest": b""}


def __llft_snapshot__() -> bytes:  # noqa: N807
    return STATE["digest"]


def __llft_restore__(state: bytes) -> None:  # noqa: N807
    STATE["digest"] = state


class Hashing(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            for _ in range(int(line)):
                STATE["digest"] = hashlib.sha256(STATE["digest"] * 64).digest()
            self.wfile.write(STATE["digest"].hex().encode() + b"\n")


def serve(port: int) -> None:
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Hashing) as server:
        server.daemon_threads = True
        server.serve_forever()


@contextmanager
def group(replication: str, home: Path, port: int) -> Iterator[RunDirectory]:
    directory = RunDirectory(home / f"cpu-{port}")
    command = [sys.executable, "-m", "llft.cli.main", "run", "--plain", "--group", directory.group]
    command += ["--replicas", str(REPLICAS), "--replication", replication]
    run = subprocess.Popen(
        [*command, "--", sys.executable, __file__, "--serve", str(port)],
        env={**os.environ, "LLFT_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=ending_with_us(signal.SIGTERM),
    )
    try:
        await_whole(directory)
        yield directory
    finally:
        end(run)


def await_whole(directory: RunDirectory) -> dict[str, Any]:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            found = survey(directory)
        except PeerError:
            found = {"members": [], "listening": []}  # its control socket is not there yet
        if found["listening"] and all_joined(found, REPLICAS):
            return found
        time.sleep(POLL_INTERVAL_S)
    raise SystemExit(f"the group did not become whole within {PATIENCE_S:g} s")


def processor_s(pid: int) -> float:
    """Of a process, in user mode and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def ask(port: int, requests: int, rounds: int) -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    with connection, connection.makefile("rwb") as file:
        for _ in range(requests):
            file.write(b"%d\n" % rounds)
            file.flush()
            file.readline()


def measure(replication: str, requests: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="llft-") as home:
        port = free_port()
        with group(replication, Path(home), port) as directory:
            members = await_whole(directory)["members"]
            before_s = [processor_s(member["pid"]) for member in members]
            ask(port, requests, rounds)
            after_s = [processor_s(member["pid"]) for member in members]
    roles = [member["role"] for member in members]
    spent = [(role, after - before) for role, before, after in zip(roles, before_s, after_s, strict=True)]
    return {
        "primary_s": round(sum(seconds for role, seconds in spent if role == "primary"), 2),
        "backup_s": [round(seconds, 2) for role, seconds in spent if role == "backup"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2000, help="of hashing 2 KB, for each request")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    found = {each.value: measure(each.value, arguments.requests, arguments.rounds) for each in Replication}
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"processor time of {arguments.requests} requests, in seconds")
    for name, spent in found.items():
        backups = ", ".join(f"{seconds:.2f}" for seconds in spent["backup_s"])
        print(f"  {name:<14} primary {spent['primary_s']:.2f}, backups {backups}")


if __name__ == "__main__":
    main()
