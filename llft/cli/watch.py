"""`llft watch`: the audit as a stream over live journals. Ends with an interrupt, or with `--once`.

Exit status: 0 if there was no alarm, ever, in this store; 1 if there was one.
"""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from llft.cli.arguments import add_spark
from llft.errors import MisuseError

STORE = ".llft-watch"
POLL_S = 1


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "watch",
        help="alarms from live journals within seconds, with Spark",
        description="Tells within seconds of a divergence, a second primary, a gap or a growing lag. What "
        "was told is kept: after a restart nothing is told twice, and nothing is missed.",
    )
    parser.add_argument(
        "path", type=Path, metavar="PATH", help="a directory of journals that are being written"
    )
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help=f"where to keep it (default: {STORE} below PATH)"
    )
    parser.add_argument("--once", action="store_true", help="what is there now, and no more")
    parser.add_argument("--json", action="store_true", help="an object a line")
    add_spark(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.pipeline.session import spark_session

    if not arguments.path.is_dir():
        raise MisuseError("no-such-directory", "give a directory of journals", path=str(arguments.path))
    store = arguments.store or arguments.path / STORE

    def tell(alarm: dict[str, Any]) -> None:
        text = json.dumps(alarm) if arguments.json else f"ALARM {alarm['condition']}: {alarm['explanation']}"
        print(text, flush=True)

    with spark_session(master=arguments.master, memory=arguments.memory) as spark:
        from llft.pipeline.watch.stream import alarms_of, watch

        query = watch(spark, str(arguments.path), store, tell, once=arguments.once)
        try:
            wait_until(query.awaitTermination)
        finally:
            query.stop()
    return 1 if alarms_of(store) else 0


def wait_until(ended: Callable[[int], bool | None]) -> None:
    """It is, or somebody says so by a signal. That raises nothing: if it broke into a call, what Java answers
    to that one would be taken for the answer to the next."""
    stopped = Event()
    before = {
        number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        while not stopped.is_set() and not ended(POLL_S):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
