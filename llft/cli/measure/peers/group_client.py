"""The store of `llft_store`, and a client that is a process group as well, of one replica: the paper's way.

No gateway is between them, and nothing waits for a backup: the client's group holds the order information of
each reply, and a new primary asks it (output commit level 0, D-10). A confirmed write is lost only if primary
and client die together; then nobody is left who knows that it was confirmed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llft.cli.group_run import TrialFailure
from llft.cli.kill import send_signal
from llft.cli.measure.comparison import Manner
from llft.cli.measure.peers import workload
from llft.cli.measure.running import ReplicatedProgram, command_of
from llft.cli.measure.side import Side, count_for
from llft.cli.measure.sides import group_side
from llft.cli.survey import require_primary

WRITE = {"text": f"SET key {workload.VALUE}\n", "reply": "line"}
WARMING = 200


class GroupClient:
    def __init__(self, side: Side) -> None:
        self._side = side

    def latencies_us(self, seconds: float) -> list[float]:
        self._side.connect(1)
        few = self._order(do="each", requests=WARMING, request=WRITE)["us"]
        count = count_for(seconds, sorted(few)[len(few) // 2])
        found: list[float] = self._order(do="each", requests=count, request=WRITE)["us"]
        return found

    def rate(self, clients: int, seconds: float) -> float:
        self._side.connect(clients)
        [us] = self._order(do="crowd", requests=WARMING * clients, request=WRITE)["us"]
        [us] = self._order(do="crowd", requests=count_for(seconds, us), request=WRITE)["us"]
        return float(1e6 / us)

    def gap_and_lost(self) -> tuple[float, int]:
        self._side.connect(1)
        killed: list[int] = []
        killer = threading.Timer(workload.SETTLING_S, lambda: killed.append(self._kill_primary()))
        killer.start()
        wrote = self._order(do="numbers", seconds=3 * workload.SETTLING_S)
        killer.join()
        if not killed:
            raise TrialFailure("no-kill", "see the error above: the gap is of no fail-over")
        known = int(self._order(do="reply", request={"text": "GET number\n", "reply": "line"})["reply"])
        return wrote["gap_ms"], max(0, wrote["confirmed"] - known)

    def _kill_primary(self) -> int:
        """Its process."""
        server = self._side.server
        assert isinstance(server, ReplicatedProgram)
        group = server.await_whole(listening=False)
        pid: int = require_primary(group)["pid"]
        send_signal(pid, signal.SIGKILL, parent=group["supervisor_pid"])
        return pid

    def _order(self, **order: Any) -> dict[str, Any]:
        return self._side.control.order(**order)


@contextmanager
def started(directory: Path, manner: Manner) -> Iterator[GroupClient]:
    def serve(port: int, host: str) -> list[str]:
        return command_of("kv_server", port)

    with group_side(manner, replicas=3, client_replicas=1, serve=serve) as side:
        yield GroupClient(side)
