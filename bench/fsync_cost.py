"""What a durable history costs: requests to a server without one, with one, and with `--fsync always`.

    python bench/fsync_cost.py [--requests N] [--rounds N] [--directory DIR] [--json]

Three groups of three replicas run at once, each the server of `llft demo`, and are asked in turn, a
round of requests each, so that whatever else the machine does meets all three alike. One client, one request
at a time. The histories are below DIR: of a file system without a disk (tmpfs) the figures say nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from llft.cli import demo_server
from llft.cli.free_port import free_port
from llft.cli.group_run import GroupRun
from llft.cli.percentiles import percentiles

KINDS = {
    "no history": (),
    "--durable --fsync never": ("--durable", "--fsync", "never"),
    "--durable --fsync always": ("--durable", "--fsync", "always"),
}
REPLICAS, WARM_UP, PATIENCE_S = 3, 50, 60.0


@contextmanager
def connected(kind: str) -> Iterator[IO[bytes]]:
    """A group of this kind, and a connection to it."""
    port = free_port()
    command = [sys.executable, demo_server.__file__, "--port", str(port)]
    run = GroupRun(f"fsync-{port}", command, replicas=REPLICAS, options=KINDS[kind])
    run.start()
    try:
        run.until("start", PATIENCE_S, lambda group: run.is_whole(group) and bool(group["listening"]))
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as file:
            yield file  # type: ignore[misc]
    finally:
        run.end()


def ask(file: IO[bytes], requests: int) -> list[float]:
    """How long each took, in milliseconds."""
    took_ms = []
    for number in range(requests):
        began_ns = time.perf_counter_ns()
        file.write(b"ADD somebody %d 1\n" % number)
        file.flush()
        file.readline()
        took_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
    return took_ms


def measure(directory: str | None, requests: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        os.environ["LLFT_HOME"] = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="llft-", dir=directory)
        )
        files = {kind: stack.enter_context(connected(kind)) for kind in KINDS}
        for file in files.values():
            ask(file, WARM_UP)
        for _ in range(rounds):
            for kind, file in files.items():
                found[kind] += ask(file, requests)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200, help="in a round")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--directory", help="where the histories are (default: that of temporary files)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.directory, arguments.requests, arguments.rounds)
    figures = {kind: percentiles(took_ms) for kind, took_ms in found.items()}
    if arguments.json:
        print(json.dumps(figures))
        return
    print(f"a request, in ms, {arguments.rounds} rounds of {arguments.requests}")
    for kind, values in figures.items():
        print(f"  {kind:<26} p50 {values['p50']:.2f}, p99 {values['p99']:.2f}")


if __name__ == "__main__":
    main()
