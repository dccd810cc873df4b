"""A small world for interposed programs: the real determinizer, real threads, and clients out of a script.

    python -m tests.unit.interpose_world live FILE CONVERSATIONS program.py ARG...
    python -m tests.unit.interpose_world replay FILE CONVERSATIONS program.py ARG...

A live run writes the order log and all output to FILE.live; a replay in another interpreter, with another
clock, follows that log and writes FILE.replay. CONVERSATIONS is JSON: a list of connections, each a list of
texts that a client sends. When and in which pieces they arrive is left to chance. Group 7 is an echo
server, and group 9 a gateway to echo servers.
"""

from __future__ import annotations

from llft import originals  # isort: skip  (before everything else)

import builtins
import json
import os
import pickle
import sys
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, NoReturn

from llft.config import ThreadMode
from llft.core.determinizer.determinizer import Completion, Determinizer
from llft.core.determinizer.operations import BAD_DESCRIPTOR, REFUSED, Failure, Operation, Result, Spawn
from llft.core.determinizer.sockets import MessageKind
from llft.errors import LlftError
from llft.identifiers import ConnectionId
from llft.wire.order import Entry
from llft.wire.preamble import PREAMBLE_BYTES, Address, Answer, Inbound, Outbound, pack, unpack

OWN_GROUP, ECHO_GROUP, GATEWAY_GROUP, DEAD_GROUP = 1, 7, 9, 99
ECHO_ADDRESS, DEAD_ADDRESS = ("10.9.9.7", 700), ("10.9.9.9", 999)
REFUSED_PORT = 1
QUIET_NS = 60_000_000
TOO_LONG_NS = 20_000_000_000


class Connection:
    def __init__(self, stream: bytes, *, ends: bool) -> None:
        self.stream = bytearray(stream)
        self.ends = ends
        self.arrived = self.taken = 0
        self.group_id = 0
        self.closed = False
        self.written: list[tuple[str, bytes]] = []
        self.digest = 0

    @property
    def complete(self) -> bool:
        return self.arrived >= len(self.stream) + self.ends


class Connections:
    """The determinizer's port; `advance` lets something arrive."""

    def __init__(self, conversations: list[list[str]], live: bool) -> None:
        self.conversations = conversations
        self.live = live
        self.listening: list[tuple[str, int]] = []
        self.opened_count = 0
        self.waiting: list[ConnectionId] = []
        self.by_fd: dict[int, Connection] = {}
        self.next_fd = 1
        self.timestamp = 0
        self.last_activity_ns = originals.monotonic_ns()

    def _allocate(self, connection: Connection) -> int:
        fd, self.next_fd = self.next_fd, self.next_fd + 1
        self.by_fd[fd] = connection
        return fd

    def open(self, group_id: int) -> int:
        connection = Connection(b"", ends=False)
        connection.group_id = group_id
        return self._allocate(connection)

    def connect_state(self, fd: int) -> Literal[True] | Failure | None:
        return REFUSED if self.by_fd[fd].group_id == DEAD_GROUP else True

    def connected(self, fd: int) -> None:
        """This world has no backups."""

    def touched(self) -> None:
        """Anything may have happened to any of them."""

    def pending_accept(self) -> ConnectionId | None:
        return self.waiting[0] if self.waiting else None

    def accept(self, connection_id: ConnectionId) -> int:
        if connection_id in self.waiting:
            self.waiting.remove(connection_id)
        index = connection_id[2]
        source = Address(f"10.0.0.{index}", 40_000 + index)
        head = pack(Inbound(Address(*self.listening[0]), source))
        texts = "".join(self.conversations[index]).encode()
        return self._allocate(Connection(head + texts, ends=True))

    def offer(self, fd: int, limit: int) -> int | Failure | None:
        connection = self.by_fd.get(fd)
        if connection is None or connection.closed:
            return BAD_DESCRIPTOR
        available = min(connection.arrived, len(connection.stream)) - connection.taken
        if available > 0:
            return min(limit, available)
        return 0 if connection.ends and connection.complete else None

    def peek(self, fd: int, size: int) -> bytes:
        connection = self.by_fd[fd]
        return bytes(connection.stream[connection.taken : connection.taken + size])

    def take(self, fd: int, size: int) -> bytes:
        connection = self.by_fd[fd]
        data = self.peek(fd, size)
        assert len(data) == size, (fd, size, len(data))
        connection.taken += size
        connection.arrived = max(connection.arrived, connection.taken)
        self.last_activity_ns = originals.monotonic_ns()
        return data

    def writable(self, fd: int) -> bool | Failure:
        return self.failure(fd) or True

    def write(
        self, fd: int, payload: bytes, kind: MessageKind, timestamp: int | None, digest: int | None
    ) -> tuple[int, int]:
        connection = self.by_fd[fd]
        connection.digest = zlib.crc32(payload, connection.digest)
        if timestamp is None:
            timestamp = self.timestamp + 1
        elif digest not in (None, connection.digest):
            fail(f"output differs on {fd}: {connection.written} then {payload!r}")
        self.timestamp = max(self.timestamp, timestamp)
        connection.written.append((kind, bytes(payload)))
        connection.closed |= kind == "close"
        self.last_activity_ns = originals.monotonic_ns()
        if connection.group_id:
            self._respond(connection, payload, kind)
        return timestamp, connection.digest

    def _respond(self, connection: Connection, payload: bytes, kind: MessageKind) -> None:
        """A remote group: it echoes; the gateway first answers the preamble."""
        if kind == "half_close":
            connection.ends = True
        if kind != "data":
            return
        before = sum(len(data) for _, data in connection.written) - len(payload)
        if before:
            connection.stream += payload
            return
        preamble = unpack(payload[:PREAMBLE_BYTES])
        if connection.group_id == GATEWAY_GROUP:
            assert isinstance(preamble, Outbound)
            refused = preamble.destination.port == REFUSED_PORT
            connection.stream += pack(Answer(111 if refused else 0, Address("192.0.2.1", 5_000)))

    def failure(self, fd: int) -> Failure | None:
        connection = self.by_fd.get(fd)
        return BAD_DESCRIPTOR if connection is None or connection.closed else None

    def passed(self, entry: Entry) -> None:
        raise AssertionError(entry)

    def advance(self) -> None:
        """Something arrives, perhaps."""
        chance = originals.urandom(4)
        if self.listening and self.opened_count < len(self.conversations) and chance[0] < 128:
            self.waiting.append(ConnectionId(20, OWN_GROUP, self.opened_count))
            self.opened_count += 1
        for fd, connection in self.by_fd.items():
            roll = originals.urandom(2)
            if not connection.complete and roll[0] < 160:
                piece = 1000 if roll[1] < 128 else roll[1] // 8
                limit = len(connection.stream) + connection.ends
                connection.arrived = min(limit, max(connection.arrived + piece, PREAMBLE_BYTES if fd else 0))

    @property
    def finished(self) -> bool:
        done = all(
            connection.closed or connection.taken == len(connection.stream)
            for connection in self.by_fd.values()
        )
        quiet = originals.monotonic_ns() - self.last_activity_ns > QUIET_NS
        served = 0 < self.opened_count == len(self.conversations) and not self.waiting
        return served and done and quiet


class Thread:
    def __init__(self, number: int) -> None:
        self.number = number
        self.gate = originals.allocate_lock()
        self.gate.acquire()
        self.result: Result | object = None


class World:
    """The port, and a driver in a hundred lines."""

    threads_mode = ThreadMode.TOKEN

    def __init__(self, mode: str, file: str, conversations: list[list[str]], log: list[Entry]) -> None:
        self.live = mode == "live"
        self.file = file
        self.skew_ns = 0 if self.live else 7_777_777_777
        self.connections = Connections(conversations, self.live)
        self.log = log
        self.local = originals.thread_local()
        self.threads = {1: Thread(1)}
        self.functions: dict[str, Callable[[], None]] = {}
        self.begun_ns = originals.monotonic_ns()
        self.determinizer = Determinizer(
            self.threads_mode,
            self.connections,
            self.log.append if self.live else lambda entry: fail(f"a follower recorded {entry}"),
            lambda clock_id: originals.clock_gettime_ns(clock_id) + self.skew_ns,
            originals.urandom,
        )
        self.prepare()

    def prepare(self) -> None:
        pass

    def run(self, main: Callable[[], None]) -> NoReturn:
        determinizer = self.determinizer
        if self.live:
            determinizer.go_live(originals.monotonic_ns())
        determinizer.start()
        self.local.thread = self.threads[1]
        self.begin()
        try:
            main()
        except SystemExit:
            self.end("program ended")
        except BaseException as error:  # noqa: BLE001 (shown, and the run has failed)
            import traceback

            traceback.print_exc()
            fail(f"main thread: {error!r}")
        self.end("program ended")

    def begin(self) -> None:
        if not self.live:
            for entry in self.log:
                self.determinizer.follow(entry)
        assert self.determinizer.drain() == [("start", 1, None)]

    # -- Port --------------------------------------------------------------------------------------

    def current(self) -> int:
        thread = getattr(self.local, "thread", None)
        return thread.number if thread is not None else 0

    def ordered(self) -> bool:
        return False

    def call(self, operation: Operation) -> Any:
        thread: Thread = self.local.thread
        try:
            self.determinizer.invoke(thread.number, operation, originals.monotonic_ns())
        except LlftError as error:
            fail(f"thread {thread.number} in {operation}: {error}")
        self.go_on(thread)
        return thread.result

    def go_on(self, me: Thread | None) -> None:
        completions = self.determinizer.drain() or self.wait()
        (what, number, value), *others = completions
        assert not others, completions
        if what == "start":
            self.threads[number] = thread = Thread(number)
            originals.start_new_thread(self.run_thread, (thread, self.functions.pop(str(value))))
        else:
            thread = self.threads[number]
            thread.result = value
            if thread is me:
                return
            thread.gate.release()
        if me is not None:
            me.gate.acquire()

    def wait(self) -> list[Completion]:
        """Nobody runs: the outside goes on."""
        if not self.live:
            self.end("log consumed" if self.determinizer.caught_up else fail("a follower is stuck"))
        while True:
            self.connections.advance()
            now_ns = originals.monotonic_ns()
            self.determinizer.poke(now_ns)
            completions = self.determinizer.drain()
            if completions:
                return completions
            if self.connections.finished:
                self.end("clients served")
            if now_ns - self.begun_ns > TOO_LONG_NS:
                fail(f"hangs: {self.determinizer.statistics()}")
            originals.sleep(0.0003)

    def run_thread(self, thread: Thread, function: Callable[[], None]) -> None:
        self.local.thread = thread
        function()
        self.local.thread = None
        try:
            self.determinizer.thread_ended(thread.number)
        except LlftError as error:
            fail(f"at the end of thread {thread.number}: {error}")
        del self.threads[thread.number]
        self.go_on(None)

    def spawn(self, function: Callable[[], None]) -> int:
        key = originals.urandom(8).hex()
        self.functions[key] = function
        number = self.call(Spawn(key))
        assert isinstance(number, int)
        return number

    def listening(self, host: str, port: int) -> None:
        self.connections.listening.append((host, port))

    def not_listening(self, host: str, port: int) -> None:
        pass

    def ended(self, status: int) -> NoReturn:
        self.end(f"ended with {status}")

    def group_of(self, host: str, port: int) -> int:
        return {ECHO_ADDRESS: ECHO_GROUP, DEAD_ADDRESS: DEAD_GROUP}.get((host, port), 0)

    def gateway(self) -> int:
        return GATEWAY_GROUP

    def end(self, reason: object) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        output = {fd: connection.written for fd, connection in self.connections.by_fd.items()}
        result = {"reason": reason, "log": self.log if self.live else None, "output": output}
        result["statistics"] = self.determinizer.statistics()
        path = f"{self.file}.{'live' if self.live else 'replay'}"
        with open(path, "wb") as file:
            pickle.dump(result, file)
        originals.exit_now(0)


def fail(text: str) -> NoReturn:
    import traceback

    sys.stderr.write(f"FAILED {text}\n")
    traceback.print_stack()
    sys.stdout.flush()
    sys.stderr.flush()
    originals.exit_now(3)


def execute(words: list[str]) -> None:
    from llft.interpose.ticking import compiled

    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __file__=words[0])
    sys.modules["__main__"] = module
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    with open(words[0], "rb") as file:
        code = compiled(file.read(), words[0])
    try:
        exec(code, module.__dict__)
    finally:
        import threading

        threading._shutdown()  # type: ignore[attr-defined]


def run_world(kind: type[World]) -> None:
    mode, file, conversations, *words = sys.argv[1:]
    log: list[Entry] = []
    if mode == "replay":
        with open(f"{file}.live", "rb") as recorded:
            log = pickle.load(recorded)["log"]
    world = kind(mode, file, json.loads(conversations), log)

    def run() -> None:
        from llft.interpose.install import install

        install(world)
        execute(words)

    world.run(run)


if __name__ == "__main__":
    run_world(World)
