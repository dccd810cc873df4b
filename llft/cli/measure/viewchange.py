"""Figure 5: how long the change of the primary takes, against the number of replicas; there are no clients.

From the suspicion to the new primary, as that one says: `us`. It begins with the step of the core that learns
of the death, and ends when all is done that the step wants done in which it becomes the primary, but to note
it: the order log has the view, messages are sent, threads resumed. `noted_us` is the same until what has
happened is handed to the journal and the pulse as well; then it takes requests (and the journal puts it into
bytes within four milliseconds). The primary is killed, so that detection is a certificate.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from typing import Any

from llft.cli.free_port import free_port
from llft.cli.kill import send_signal
from llft.cli.measure.comparison import Manner, Point
from llft.cli.measure.running import READY_PATIENCE_S, ReplicatedProgram, ending, start_group
from llft.cli.measure.sides import echo_with_threads
from llft.cli.percentiles import percentiles
from llft.cli.survey import Group, primary_of, require_primary


def measure(arguments: argparse.Namespace, manner: Manner) -> Iterator[Point]:
    for replicas in arguments.replicas:
        command = echo_with_threads(free_port(), manner.network.host)
        program = start_group("server", command, replicas=replicas, outside=False, gateway=False)
        with ending(program):
            changes = [_change(program) for _ in range(manner.rounds)]
        point = point_of(changes, replicas, manner)
        told = f"{point['us']:.0f} us, at most {point['max_us']:.0f} us; noted at {point['noted_us']:.0f} us"
        manner.tell(f"{replicas} replicas: {told}")
        yield point


def _change(program: ReplicatedProgram) -> dict[str, Any]:
    """Kill the primary; what its successor says of the change."""
    group = program.await_whole(listening=False)
    victim = require_primary(group)
    send_signal(victim["pid"], signal.SIGKILL, parent=group["supervisor_pid"])

    def replaced(group: Group) -> bool:
        primary = primary_of(group)
        return primary is not None and primary["birth"] != victim["birth"] and bool(primary["views"])

    after = program.run.until("fail-over", READY_PATIENCE_S, replaced)
    change: dict[str, Any] = require_primary(after)["views"][-1]
    return change


def point_of(changes: list[dict[str, Any]], replicas: int, manner: Manner) -> Point:
    whole = percentiles([(each["acts_ns"] - each["suspected_at_ns"]) / 1000 for each in changes])
    noted = percentiles([(each["performed_ns"] - each["suspected_at_ns"]) / 1000 for each in changes])
    return {
        "replicas": replicas,
        "clients": 0,
        "network": manner.network.name,
        "lane": manner.lane,
        "us": whole["p50"],
        "max_us": whole["max"],
        "noted_us": noted["p50"],
        "kills": len(changes),
    }
