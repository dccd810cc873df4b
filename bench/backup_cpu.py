"""What backups cost: processor time of a server's replicas, semi-active beside semi-passive.

    python bench/backup_cpu.py [--requests N] [--rounds N] [--json]

A server with hooks that hashes for some milliseconds a request, as three replicas behind a gateway, and one
client. Processor time is that of the kernel's books, from the first request to the last. The bar is
that a semi-passive backup takes less than a third of a semi-active one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import socketserver
import sys
import tempfile
from typing import Any

from llft.cli.free_port import free_port
from llft.cli.group_run import GroupRun
from llft.cli.measure.disturbance import cpu_s
from llft.cli.survey import Group
from llft.config import Replication

REPLICAS = 3
PATIENCE_S = 60.0
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


def ask(port: int, requests: int, rounds: int) -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    with connection, connection.makefile("rwb") as file:
        for _ in range(requests):
            file.write(b"%d\n" % rounds)
            file.flush()
            file.readline()


def is_there(run: GroupRun, group: Group) -> bool:
    return run.is_whole(group) and bool(group["listening"])


def measure(replication: str, requests: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="llft-") as home:
        os.environ["LLFT_HOME"] = home
        port = free_port()
        command = [sys.executable, __file__, "--serve", str(port)]
        run = GroupRun(f"cpu-{port}", command, replicas=REPLICAS, options=["--replication", replication])
        run.start()
        try:
            members = run.until("start", PATIENCE_S, lambda group: is_there(run, group))["members"]
            before_s = [cpu_s(member["pid"]) for member in members]
            ask(port, requests, rounds)
            after_s = [cpu_s(member["pid"]) for member in members]
        finally:
            run.end()
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
