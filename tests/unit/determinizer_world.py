"""A small world for determinizers: fake connections, a program with many threads, and a shell that runs it.

The outside (which connections come, what arrives on them) is fixed by a seed; *when* things arrive
is up to whoever drives a live replica. A follower's connections hold everything from the beginning,
since the replica hands on an entry only when its messages are there.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import groupby
from typing import Any, Literal

from llft.config import ThreadMode
from llft.core.determinizer.determinizer import Completion, Determinizer
from llft.core.determinizer.operations import (
    BAD_DESCRIPTOR,
    REFUSED,
    RESET,
    WOULD_BLOCK,
    Accept,
    Claim,
    Close,
    Connect,
    Failure,
    HalfClose,
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
    Result,
    Select,
    Send,
    Sleep,
    Spawn,
    TryClaim,
    Yield,
)
from llft.core.determinizer.sockets import MessageKind
from llft.identifiers import ConnectionId
from llft.wire.order import MUTEX, Entry

OWN_GROUP, DEAD_GROUP = 1, 99
Thread = Generator[Operation, Any, None]


class OutputDiffersError(Exception):
    """The port's comparison of digests (D-09)."""


class Descriptor:
    def __init__(self, stream: bytes, end: Failure | None) -> None:
        self.stream, self.end = stream, end
        self.arrived = self.taken = 0
        self.window_open = True
        self.connected: Literal[True] | Failure | None = None
        self.closed = False
        self.written: list[tuple[str, bytes, int]] = []
        self.digest = 0


class FakeConnections:
    def __init__(self, seed: int, incoming: int) -> None:
        self.seed = seed
        self.waiting = [ConnectionId(20 + index, OWN_GROUP, index) for index in range(incoming)]
        self.visible = 0
        """How many of those waiting have come, as a primary sees it."""
        self.descriptors: dict[int, Descriptor] = {}
        self.timestamp = 0
        self.passed_entries: list[Entry] = []

    def _allocate(self, name: str) -> int:
        fd = len(self.descriptors) + 1
        rng = random.Random(f"{self.seed} {name} {fd}")
        stream = rng.randbytes(rng.randrange(0, 40))
        self.descriptors[fd] = Descriptor(stream, RESET if rng.random() < 0.2 else None)
        return fd

    def open(self, group_id: int) -> int:
        return self._allocate("open")

    def connect_state(self, fd: int) -> Literal[True] | Failure | None:
        return self.descriptors[fd].connected

    def connected(self, fd: int) -> None:
        self.descriptors[fd].connected = True

    def touched(self) -> None:
        """Anything may have happened to any of them."""

    def pending_accept(self) -> ConnectionId | None:
        return self.waiting[0] if self.visible else None

    def accept(self, connection_id: ConnectionId) -> int:
        self.waiting.remove(connection_id)
        self.visible = max(0, self.visible - 1)
        return self._allocate(str(connection_id))

    def offer(self, fd: int, limit: int) -> int | Failure | None:
        descriptor = self.descriptors.get(fd)
        if descriptor is None or descriptor.closed:
            return BAD_DESCRIPTOR
        available = min(descriptor.arrived, len(descriptor.stream)) - descriptor.taken
        if available > 0:
            return min(limit, available)
        if descriptor.arrived <= len(descriptor.stream):
            return None
        return descriptor.end or 0

    def take(self, fd: int, size: int) -> bytes:
        descriptor = self.descriptors[fd]
        data = descriptor.stream[descriptor.taken : descriptor.taken + size]
        assert len(data) == size
        descriptor.taken += size
        descriptor.arrived = max(descriptor.arrived, descriptor.taken)
        return data

    def writable(self, fd: int) -> bool | Failure:
        return self.failure(fd) or self.descriptors[fd].window_open

    def write(
        self, fd: int, payload: bytes, kind: MessageKind, timestamp: int | None, digest: int | None
    ) -> tuple[int, int]:
        descriptor = self.descriptors[fd]
        descriptor.digest = zlib.crc32(payload, descriptor.digest)
        if timestamp is None:
            timestamp = self.timestamp + 1
        elif digest not in (None, descriptor.digest):
            raise OutputDiffersError
        self.timestamp = max(self.timestamp, timestamp)
        descriptor.written.append((kind, payload, timestamp))
        descriptor.closed |= kind == "close"
        return timestamp, descriptor.digest

    def failure(self, fd: int) -> Failure | None:
        descriptor = self.descriptors.get(fd)
        if descriptor is None or descriptor.closed:
            return BAD_DESCRIPTOR
        return descriptor.end if descriptor.arrived > len(descriptor.stream) else None

    def passed(self, entry: Entry) -> None:
        self.passed_entries.append(entry)

    def stir(self, rng: random.Random) -> None:
        """Let something arrive."""
        if self.visible < len(self.waiting) and rng.random() < 0.5:
            self.visible += 1
        for descriptor in self.descriptors.values():
            if rng.random() < 0.5:
                descriptor.arrived = min(descriptor.arrived + rng.randrange(12), len(descriptor.stream) + 1)
            descriptor.window_open = rng.random() < 0.8
            if descriptor.connected is None and rng.random() < 0.5:
                descriptor.connected = REFUSED if len(descriptor.stream) % 5 == 0 else True
                descriptor.closed |= descriptor.connected is REFUSED

    def output(self) -> dict[int, list[tuple[str, bytes, int]]]:
        return {fd: descriptor.written for fd, descriptor in self.descriptors.items()}

    def established(self) -> list[int]:
        """Those that the program opened, and that are connected."""
        return [
            fd
            for fd, descriptor in self.descriptors.items()
            if descriptor.connected is True and "connect" in [kind for kind, _, _ in descriptor.written]
        ]


class Program:
    """Deterministic but for the results of its operations; restored by repeating its history."""

    def __init__(self, incoming: int, racy: bool) -> None:
        self.incoming, self.racy = incoming, racy
        self.shared: list[object] = []
        self.race: list[int] = []
        self.threads: dict[int, Thread] = {}
        self.wanted, self.begun = 1, 0
        self.history: list[Completion] = []
        self.current = 0
        """The thread that runs."""
        self.waiting: dict[int, Operation] = {}
        """What each thread invoked last."""
        self.produce: Callable[[], bytes] = bytes

    @property
    def finished(self) -> bool:
        return self.begun == self.wanted and not self.threads

    def run(self, completion: Completion) -> Operation | None:
        what, thread, value = completion
        self.current = thread
        self.history.append(completion)
        if self.racy:
            self.race.append(thread)
        if what == "start":
            kind, argument = value if isinstance(value, list) else ("main", 0)
            self.threads[thread] = getattr(self, kind)(argument)
            self.begun += 1
            value = None
        try:
            operation = self.threads[thread].send(value)
            self.wanted += isinstance(operation, Spawn)
            self.waiting[thread] = operation
            return operation
        except StopIteration:
            del self.threads[thread]
            return None

    def repeat(self, history: Iterable[Completion]) -> None:
        for completion in history:
            self.run(completion)

    def main(self, _: int) -> Thread:
        for index in range(2):
            yield Spawn(["worker", index])
        yield Spawn(["client", 7])
        yield Spawn(["client", DEAD_GROUP])
        accepted = 0
        while accepted < self.incoming:
            connection = yield Accept(blocking=False)
            if isinstance(connection, Failure):
                yield Select((0,), 20_000)
                connection = yield Accept()
            accepted += 1
            fd, group_id = connection
            yield from self.update(("accepted", fd, group_id))
            yield Spawn(["serve", fd])
        self.final = yield ReadClock(0)

    def update(self, item: object) -> Thread:
        assert (yield Claim(1)) is True
        self.shared.append(item)
        assert (yield Release(1)) is True

    def worker(self, index: int) -> Thread:
        for turn in range(3):
            claimed = yield TryClaim(2)
            if claimed:
                yield Sleep(turn * 3_000)
                yield from self.update(("worker", index, turn))
                yield Release(2)
            else:
                yield Yield()
                yield from self.update(("worker busy", index, (yield ReadClock(1))))
            yield Sleep((yield RandomBytes(1))[0] * 100)
        yield Release(1000 + index)

    def client(self, group_id: int) -> Thread:
        fd = yield Connect(group_id)
        yield from self.update(("connected", fd))
        if isinstance(fd, int):
            yield Send(fd, b"hello" * 3)
            yield HalfClose(fd)
            yield from self.read_all(fd)
            yield Close(fd)
            yield Receive(fd, 1)

    def read_all(self, fd: int) -> Thread:
        while True:
            data = yield Receive(fd, 7)
            yield from self.update((fd, data))
            if not data or isinstance(data, Failure):
                return

    def serve(self, fd: int) -> Thread:
        for turn in range(3):
            data = yield Receive(fd, 5, blocking=turn % 2 == 0)
            if data == WOULD_BLOCK:
                data = yield Select((fd, 0), 20_000)
            yield from self.update((fd, data, (yield ReadClock(0))))
            yield Send(fd, repr(self.race if self.racy else data).encode(), blocking=turn != 1)
        yield from self.read_all(fd)
        yield Close(fd)


class Replica:
    """A shell: runs the program's threads as the determinizer resumes them."""

    def __init__(
        self,
        mode: ThreadMode,
        seed: int,
        *,
        incoming: int = 2,
        skew_ns: int = 0,
        name: str = "",
        quantum_calls: int = 64,
        program: type[Program] = Program,
    ) -> None:
        self.quantum_calls = quantum_calls
        self.mode, self.seed, self.incoming = mode, seed, incoming
        self.now_ns = 0
        self.skew_ns = skew_ns
        self.rng = random.Random(f"{seed} {name} {skew_ns}")
        self.log: list[Entry] = []
        self.ready: list[Completion] = []
        self.connections = FakeConnections(seed, incoming)
        self.program = program(incoming, mode is ThreadMode.TOKEN)
        self.program.produce = self.produce
        self.determinizer = self.new_determinizer()

    def new_determinizer(self) -> Determinizer:
        return Determinizer(
            self.mode,
            self.connections,
            self.log.append,
            lambda clock_id: self.skew_ns + self.now_ns,
            self.rng.randbytes,
            quantum_calls=self.quantum_calls,
        )

    def produce(self) -> bytes:
        """For Obtain: only a primary asks."""
        assert self.determinizer.live
        assert not self.determinizer.held
        return self.rng.randbytes(3)

    def step(self) -> None:
        """Run one thread from one call to the next."""
        index = self.rng.randrange(len(self.ready))
        completion = self.ready.pop(index)
        operation = self.program.run(completion)
        self.now_ns += self.rng.randrange(1000)
        before = len(self.log)
        if operation is None:
            self.determinizer.thread_ended(completion[1])
        else:
            self.determinizer.invoke(completion[1], operation, self.now_ns)
        assert not self.determinizer.held or len(self.log) == before
        self.drain()

    def drain(self) -> None:
        self.ready += self.determinizer.drain()
        if self.mode is ThreadMode.TOKEN:
            assert len(self.ready) <= 1

    def run_dry(self) -> None:
        while self.ready:
            self.step()

    def follow(self, entries: Iterable[Entry], eager: float = 0.5, *, locks_together: bool = False) -> None:
        for some in together(entries) if locks_together else ([entry] for entry in entries):
            if locks_together and some[0][0] == MUTEX:
                self.determinizer.follow_locks(some[0], [entry[4] for entry in some])
            else:
                self.determinizer.follow(*some)
            self.drain()
            while self.ready and self.rng.random() < eager:
                self.step()
        self.run_dry()

    def begin_live(self) -> None:
        self.determinizer.go_live(self.now_ns)
        self.determinizer.start()
        self.drain()

    def live_step(self) -> None:
        determinizer, rng = self.determinizer, self.rng
        if self.ready and rng.random() < 0.7:
            self.step()
            return
        self.now_ns += rng.randrange(3000)
        self.connections.stir(rng)
        determinizer.held = not determinizer.held and rng.random() < 0.2
        before = len(self.log)
        determinizer.poke(self.now_ns)
        assert not determinizer.held or len(self.log) == before
        self.drain()

    def run_live(self, steps: int = 3_000) -> None:
        for _ in range(steps):
            if self.program.finished:
                return
            self.live_step()
        raise AssertionError(f"not finished: {self.determinizer.statistics()}")

    def outcome(self) -> tuple[object, ...]:
        """What must be alike at all replicas."""
        program = self.program
        threads: dict[int, list[tuple[str, Result | object]]] = {}
        for what, thread, value in program.history:
            threads.setdefault(thread, []).append((what, value))
        order = program.history if self.mode is ThreadMode.TOKEN else None
        return threads, program.shared, program.race, order, self.connections.output()


def together(log: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries of a mutex that differ in their counts alone, as a cursor hands them on, and others singly."""
    for _, alike in groupby(
        log, key=lambda entry: entry[:4] if entry[0] == MUTEX and entry[5] == 1 else None
    ):
        some = list(alike)
        yield from [some] if some[0][0] == MUTEX and some[0][5] == 1 else ([entry] for entry in some)
