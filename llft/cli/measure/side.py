"""One way to run a client and a server: what the client is made to ask, and what that took."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from llft.cli.measure.control import Control
from llft.cli.measure.disturbance import cpu_s
from llft.cli.measure.placement import place
from llft.cli.measure.points import Sample
from llft.cli.measure.running import Processes, Running

TRIAL_REQUESTS, TRIALS_MAX, TRIAL_SHARE = 5, 4, 0.25
BATCH = 10
FEWEST_BATCHES = 5
FEWEST_REQUESTS, MOST_REQUESTS = 8, 50_000
TAIL_SHARE = 0.25
"""So many of the requests are timed one by one: under LLFT a reading of the clock is not free."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`request` as the asking client has it. `crowd`: on all connections at once."""

    request: dict[str, Any]
    connections: int = 1
    crowd: bool = False


@dataclass(slots=True)
class Side:
    client: Running
    server: Running
    control: Control
    host: str
    port: int
    _connections: int = field(default=0, init=False)

    def processes(self) -> tuple[Processes, Processes]:
        """The client's, and the server's."""
        return self.client.processes(), self.server.processes()

    def place(self, placement: str, *, backups: str) -> None:
        client, server = self.processes()
        place(client, server, placement, backups=backups)

    def connect(self, count: int) -> None:
        if count != self._connections:
            self.control.order(do="connect", host=self.host, port=self.port, connections=count)
            self._connections = count

    def requests_in(self, workload: Workload, seconds: float) -> int:
        """How many take about so long. The first ones are slower than all others: it is tried with more and
        more until they take a good part of that time."""
        self.connect(workload.connections)
        count = max(TRIAL_REQUESTS, 2 * workload.connections)
        self._ask(workload, count)
        for _ in range(TRIALS_MAX):
            began_s = time.monotonic()
            us = self._ask(workload, count)
            if time.monotonic() - began_s > TRIAL_SHARE * seconds:
                break
            count = max(count, count_for(TRIAL_SHARE * 2 * seconds, us))
        return count_for(seconds, us)

    def sample(self, workload: Workload, requests: int) -> Sample:
        server = self.server.processes()
        before_s = {pid: cpu_s(pid) for pid in server.all}
        each: tuple[float, ...] = ()
        if workload.crowd:
            us = self._ask(workload, requests)
        else:
            singles = max(1, int(requests * TAIL_SHARE))
            us = self._ask(workload, requests - singles)
            order = {"do": "each", "requests": singles, "request": workload.request}
            each = tuple(self.control.order(**order)["us"])
        spent_us = {pid: (cpu_s(pid) - before_s[pid]) * 1e6 / requests for pid in server.all}
        primary, *gateways = [spent_us[pid] for pid in server.serving]
        backups = [spent_us[pid] for pid in server.following]
        return Sample(us, each, primary, backup_cpu_us=mean(backups), gateway_cpu_us=mean(gateways))

    def _ask(self, workload: Workload, requests: int) -> float:
        """Microseconds of a request, the median of batches."""
        how = "crowd" if workload.crowd else "batches"
        batch = min(BATCH, max(1, requests // FEWEST_BATCHES))
        answer = self.control.order(do=how, requests=requests, batch=batch, request=workload.request)
        times_us: list[float] = answer["us"]
        return statistics.median(times_us)


def mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def count_for(seconds: float, us: float) -> int:
    return max(FEWEST_REQUESTS, min(MOST_REQUESTS, round(seconds * 1e6 / us)))
