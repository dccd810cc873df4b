"""What a round trip costs while other connections are idle, in plain Python.

    python bench/connections.py [--idle 10,100,1000] [--count N] [--level L] [--inside] [--select] [--profile]

A gateway (ordered threads, outside) and a server of one primary and one backup (the token), with a thread for
every connection at both ends, and datagrams handed over by function calls. One connection sends a small
request and waits for its echo; all others wait. Simulated time goes on by 200 us a round trip, and timers are
served as they are due, so heartbeats, acks and keep-alives of all connections are in the figure, which is
processor time. It should not depend on how many wait: the bar is that a thousand cost at most twice as
much as ten.

`--select` lets the server be one thread that selects on all connections: such a program names all of them
in every call, so its own cost grows with their number. No socket is opened.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import random
from collections import deque
from collections.abc import Callable, Generator
from time import process_time_ns
from typing import Any

from llft.config import GroupConfig, ThreadMode
from llft.core import effects, events
from llft.core.determinizer.operations import Accept, Connect, Park, Receive, Select, Send, Spawn
from llft.core.replica import Replica
from llft.identifiers import BirthId
from llft.instant import MS, SECOND, US

GATEWAY, SERVER = 1, 2
REQUEST = b"r" * 64
ROUND_TRIP_NS = 200 * US
SETTLING_NS = 3 * SECOND

Steps = Generator[Any, Any, None]


class Process:
    """A core, and an application of generators: each yields an operation and is sent its result."""

    def __init__(self, world: World, config: GroupConfig, pid: int, main: Callable[[], Steps]) -> None:
        self.world = world
        self.core = Replica(
            config,
            BirthId(pid, pid, pid),
            local_clock=lambda _: 0,
            random=random.Random(pid),
            journalling=False,
        )
        self.main = main
        self.threads: dict[int, Steps] = {}
        self.runs: deque[tuple[int, Any]] = deque()

    def step(self, event: events.Event) -> None:
        for effect in self.core.step(event, self.world.now_ns):
            if isinstance(effect, effects.Multicast):
                self.world.multicast(self, effect)
            elif isinstance(effect, effects.Transmit):
                self.world.transmit(effect)
            elif isinstance(effect, effects.ResumeThread):
                self.runs.append((effect.thread, effect.result))
            elif isinstance(effect, effects.StartApplication):
                self.start(1, self.main())
            elif isinstance(effect, effects.StartThread):
                argument: Any = effect.argument
                self.start(effect.thread, argument[0](*argument[1:]))
            elif isinstance(effect, effects.CaptureState):
                self.step(events.StateCaptured(b""))
            elif isinstance(effect, effects.RestoreState):
                self.start(1, self.main())  # it joined before the application did anything

    def start(self, thread: int, steps: Steps) -> None:
        self.threads[thread] = steps
        self.runs.append((thread, None))

    def run(self) -> bool:
        if not self.runs:
            return False
        while self.runs:
            thread, value = self.runs.popleft()
            try:
                operation = self.threads[thread].send(value)
            except StopIteration:
                self.step(events.ThreadEnded(thread))
            else:
                self.step(events.OperationInvoked(thread, operation))
        return True


class World:
    def __init__(self, idle_count: int, *, level: int, outside: bool, selecting: bool) -> None:
        self.now_ns = 0
        self.idle_count = idle_count
        self.answered = 0
        self.connected = 0
        self.active_thread = 0
        self.wanted = 0
        self.queue: deque[tuple[Process, bytes]] = deque()
        serve = self._select_all if selecting else self._serve
        server = GroupConfig(SERVER, output_commit_level=level)
        gateway = GroupConfig(GATEWAY, threads=ThreadMode.ORDERED, outside=outside)
        self.processes = [Process(self, server, 1, serve), Process(self, server, 2, serve)]
        self.processes[0].step(events.Started(alone=True))
        self.processes[1].step(events.Started())
        self._until(lambda: self.processes[1].core.has_state)
        self.processes.append(Process(self, gateway, 3, self._clients))
        self.processes[2].step(events.Started(alone=True))
        self._until(lambda: self.connected == idle_count + 1)
        for _ in range(SETTLING_NS // MS):  # acks, watermarks; KeepAlives become rare
            self.turn(MS)

    # -- the network and time ----------------------------------------------------------------

    def multicast(self, sender: Process, effect: effects.Multicast) -> None:
        for process in self.processes:
            if process is not sender and process.core.config.group_id == effect.group_id:
                self.queue.append((process, effect.data))

    def transmit(self, effect: effects.Transmit) -> None:
        for process in self.processes:
            if process.core.standing.birth_id == effect.birth_id:
                self.queue.append((process, effect.data))

    def turn(self, step_ns: int = ROUND_TRIP_NS // 4) -> None:
        self.now_ns += step_ns
        for process in self.processes:
            if process.core.next_deadline() <= self.now_ns:
                process.step(events.DeadlinePassed())
        self._settle()

    def _settle(self) -> None:
        while True:
            while self.queue:
                process, data = self.queue.popleft()
                process.step(events.MessageReceived(data))
            ran = [process.run() for process in self.processes]
            if not any(ran) and not self.queue:
                return

    def _until(self, condition: Callable[[], bool]) -> None:
        for _ in range(200_000):
            if condition():
                return
            self.turn()
        raise AssertionError("nothing happens any more")

    # -- the applications --------------------------------------------------------------------

    def _serve(self) -> Steps:
        while True:
            fd, _ = yield Accept()
            yield Spawn((_echo, fd))

    def _select_all(self) -> Steps:
        fds: list[int] = [0]
        while True:
            for fd in (yield Select(tuple(fds), -1)):
                if fd == 0:
                    accepted, _ = yield Accept()
                    fds.append(accepted)
                else:
                    data = yield Receive(fd, 65_536)
                    yield Send(fd, data)

    def _clients(self) -> Steps:
        self.active_thread = yield Spawn((self._active,))
        for _ in range(self.idle_count):
            yield Spawn((self._idle,))
        yield Park()

    def _idle(self) -> Steps:
        fd = yield Connect(SERVER)
        self.connected += 1
        yield Receive(fd, 65_536)

    def _active(self) -> Steps:
        fd = yield Connect(SERVER)
        self.connected += 1
        while True:
            while self.wanted > self.answered:
                yield Send(fd, REQUEST)
                yield Receive(fd, 65_536)
                self.answered += 1
            yield Park(ROUND_TRIP_NS // 4)

    def round_trip(self) -> None:
        self.wanted += 1
        for _ in range(4):
            self.turn()
        while self.answered < self.wanted:
            self.turn()


def _echo(fd: int) -> Steps:
    while True:
        data = yield Receive(fd, 65_536)
        yield Send(fd, data)


def measure(world: World, count: int, *, profiled: bool) -> float:
    """Microseconds per round trip, keep-alives and all."""
    for _ in range(20):
        world.round_trip()
    profile = cProfile.Profile()
    if profiled:
        profile.enable()
    start_ns = process_time_ns()
    for _ in range(count):
        world.round_trip()
    taken_ns = process_time_ns() - start_ns
    if profiled:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(22)
    return taken_ns / count / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description="a round trip's cost against the number of idle connections")
    parser.add_argument("--idle", default="10,100,1000")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--level", type=int, default=0, help="the server's output commit level")
    parser.add_argument("--inside", action="store_true", help="the client does not wait for the commit")
    parser.add_argument("--select", action="store_true", help="the server is one thread that selects")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    costs_us = {}
    for idle_count in map(int, arguments.idle.split(",")):
        world = World(
            idle_count, level=arguments.level, outside=not arguments.inside, selecting=arguments.select
        )
        cost_us = costs_us[idle_count] = measure(world, arguments.count, profiled=arguments.profile)
        if not arguments.json:
            print(f"{idle_count:6d} idle connections  {cost_us:9.1f} us per round trip", flush=True)
    if arguments.json:
        print(json.dumps({"us_per_round_trip": costs_us}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
