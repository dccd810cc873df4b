"""What one request costs in the core, in plain Python.

    python bench/core_step.py [--count N] [--profile]

A server's primary with one backup and one client group, 1 KB each way, everything in order. Per request the
core receives a Request, delivers it and records that, sends a Reply and records that, with its
order information piggybacked and the client's reflected. Two figures, medians of single timings:

    lane   the calls of the lane alone: receive, deliver, record, generate, record, datagram
    step   the same through `Replica.step`: MessageReceived, then the application's Receive and Send,
           with the determinizer's scheduling and the effects for the shell; journal off

`--profile` shows where the time of `step` goes. No socket is opened; the bar for `lane` is 10 us.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import random
import statistics
from time import perf_counter_ns

from llft.config import GroupConfig
from llft.core import effects, events
from llft.core.determinizer.operations import Accept, Connect, Receive, Send
from llft.core.messaging.connection import Connection
from llft.core.replica import Replica
from llft.identifiers import BirthId
from llft.instant import MS
from llft.wire.header import DYNAMIC, PREFIX_BYTES
from llft.wire.order import READ, SEND

CLIENT, SERVER = 1, 2
PAYLOAD = bytes(range(256)) * 4
BAR_US = 10.0


class Bench:
    """Cores wired to each other by hand: a client, a server's primary and its backup."""

    def __init__(self, *, journalling: bool = False) -> None:
        self.now_ns = 0
        self.journalling = journalling
        self.cores = {name: self._core(group, pid) for name, group, pid in _PROCESSES}
        self.waiting: dict[str, list[object]] = {name: [] for name in self.cores}
        self.step("server", events.Started(alone=True))
        self.step("backup", events.Started())
        self.step("client", events.Started(alone=True))
        self._settle()
        self.step("server", events.OperationInvoked(1, Accept()))
        self.step("client", events.OperationInvoked(1, Connect(SERVER)))
        self._settle()
        for _ in range(4):  # the ordinary path learns the prefix, then the lane takes over
            self.step("client", events.OperationInvoked(1, Send(1, PAYLOAD)))
            self.step("server", events.OperationInvoked(1, Receive(1, 65536)))
            self.step("server", events.OperationInvoked(1, Send(1, PAYLOAD)))
            self.step("client", events.OperationInvoked(1, Receive(1, 65536)))
        self.server = self.cores["server"]
        self.connection: Connection = self.server.messaging.table.by_fd[1]

    def _core(self, group_id: int, pid: int) -> Replica:
        return Replica(
            GroupConfig(group_id),
            BirthId(pid, pid, pid),
            local_clock=lambda _: 0,
            random=random.Random(pid),
            journalling=self.journalling,
        )

    def step(self, name: str, event: events.Event) -> None:
        for effect in self.cores[name].step(event, self.now_ns):
            if isinstance(effect, effects.Multicast):
                self._multicast(name, effect)
            elif isinstance(effect, effects.Transmit):
                for other, core in self.cores.items():
                    if core.standing.birth_id == effect.birth_id:
                        self.step(other, events.MessageReceived(effect.data))
            elif isinstance(effect, effects.CaptureState):
                self.step(name, events.StateCaptured(b""))

    def _multicast(self, name: str, effect: effects.Multicast) -> None:
        for other, core in self.cores.items():
            if other != name and core.config.group_id == effect.group_id:
                self.step(other, events.MessageReceived(effect.data))

    def _settle(self) -> None:
        for _ in range(40):
            self.now_ns += MS
            for name in self.cores:
                if self.cores[name].next_deadline() <= self.now_ns:
                    self.step(name, events.DeadlinePassed())

    def request(self) -> bytes:
        """The client's next datagram: in order, acknowledging and reflecting what the server sent last."""
        connection, lane = self.connection, self.server.messaging.lane
        prefix = next(iter(lane.by_prefix))
        orders = lane.orders
        reflected = orders.slice(orders.unreflected, orders.end)
        timestamp = lane.clock.value + 1
        dynamic = DYNAMIC.pack(
            0, 0, 1, 0, len(reflected),
            connection.received_up_to - connection.in_base + 1,
            connection.out_view_num, connection.generated - connection.out_base, len(PAYLOAD),
            connection.sent[-1].timestamp if connection.sent else connection.remote_watermark,
            timestamp, 0, 0, 0, orders.unreflected,
        )  # fmt: skip
        return prefix[:PREFIX_BYTES] + dynamic + reflected + PAYLOAD

    def by_lane(self, data: bytes) -> bytes:
        """The hot path, call by call."""
        server, connection = self.server, self.connection
        lane = server.messaging.lane
        assert lane.receive(data, self.now_ns) is connection
        payload = lane.deliver(connection, 1024)
        lane.record((READ, 0, 1, 1, 1024))
        timestamp = lane.clock.on_send()
        digest = connection.digest_of(payload, 0)
        message = connection.generate(payload, 0, timestamp)
        lane.record((SEND, 0, 1, 1, timestamp, digest))
        datagram = lane.datagram(connection, message)
        connection.transmitted = message.position
        return datagram

    def by_step(self, data: bytes) -> int:
        """The same through the core's contract."""
        server = self.server
        done = len(server.step(events.MessageReceived(data), self.now_ns))
        done += len(server.step(events.OperationInvoked(1, Receive(1, 1024)), self.now_ns))
        done += len(server.step(events.OperationInvoked(1, Send(1, PAYLOAD)), self.now_ns))
        return done

    def let_backup_catch_up(self) -> None:
        """Outside the timing: the backup reports, so that lists do not grow without bound."""
        server = self.server
        server.messaging.lane.flush()
        for birth_id in server.messaging.watermarks.of_member:
            server.messaging.watermarks.report(birth_id, server.messaging.lane.orders.end, 0, has_past=True)
        server.update_watermarks()


_PROCESSES = (("server", SERVER, 1), ("backup", SERVER, 2), ("client", CLIENT, 3))


def measure(count: int, *, lane: bool, journalling: bool = False) -> list[int]:
    bench = Bench(journalling=journalling)
    call = bench.by_lane if lane else bench.by_step
    timings = []
    for number in range(count):
        data = bench.request()
        start = perf_counter_ns()
        call(data)
        timings.append(perf_counter_ns() - start)
        if number % 64 == 0:
            bench.let_backup_catch_up()
    return timings


def main() -> int:
    parser = argparse.ArgumentParser(description="what one request costs in the core")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--profile", action="store_true", help="show where the time of a step goes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rounds = [
        (statistics.median(measure(arguments.count // 4, lane=True)),
         statistics.median(measure(arguments.count // 4, lane=False)))
        for _ in range(4)
    ]  # fmt: skip
    lane_us = statistics.median(lane for lane, _ in rounds) / 1000
    step_us = statistics.median(step for _, step in rounds) / 1000
    if arguments.profile:
        bench = Bench()
        profile = cProfile.Profile()
        for _ in range(5000):
            data = bench.request()
            profile.runcall(bench.by_step, data)
        pstats.Stats(profile).sort_stats("tottime").print_stats(18)
    if arguments.json:
        print(json.dumps({"lane_us": lane_us, "step_us": step_us, "bar_us": BAR_US}))
    else:
        print(f"lane  {lane_us:6.2f} us   (bar {BAR_US:.0f} us)")
        print(f"step  {step_us:6.2f} us   with determinizer, scheduling and effects")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
