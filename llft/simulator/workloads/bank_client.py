"""A client of banks: worker threads that share one pool of requests, each on its own connections.

What a worker does next (how many requests, of which kinds, in how many writes, whether it waits
in select first, whether it changes connection afterwards) is drawn from RandomBytes, so a
replica repeats it only if it gets the same bytes. A connection ends with a half-close; reading on
to the end of the stream then proves that requests without reply were performed too.

A reset makes the requests under way *indefinite* (D-20): they are never repeated; the worker
connects again and goes on with new request ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Claim,
    Close,
    Connect,
    Failure,
    HalfClose,
    Operation,
    RandomBytes,
    Receive,
    Release,
    Result,
    Select,
    Send,
    Sleep,
    Spawn,
)
from llft.instant import MS
from llft.simulator.workloads.protocol import (
    ACCEPTED_OUTCOME,
    INDEFINITE,
    INDEFINITE_OUTCOME,
    KIND_COUNT,
    NOT_DONE_OUTCOME,
    OK,
    Request,
    decode_reply,
    encode_request,
    make_request_id,
    take_frame,
)
from llft.simulator.workloads.stepped import Outcome, SteppedProgram, Thread

WORK_MUTEX = 1
WORKER_COUNT = 2
CONNECT_ATTEMPT_COUNT = 20
RETRY_PAUSE_NS = 50 * MS
SELECT_TIMEOUT_NS = 2 * MS
BATCH_LIMIT = 4
LARGE_REPLY_BYTES = 2000
LARGE_REQUEST_BYTES = 3000
READ_LIMITS = (65536, 24, 1000)
SELECT_ROUND_COUNT = 3


@dataclass(slots=True)
class ClientThread(Thread):
    worker: int = 0
    fd: int = 0
    """0: not connected."""
    attempt_count: int = 0
    read_count: int = 0
    select_count: int = 0
    draw: bytes = b""
    numbers: range = range(0)
    inbox: bytearray = field(default_factory=bytearray)
    outgoing: list[bytes] = field(default_factory=list)
    awaited: list[int] = field(default_factory=list)
    unconfirmed: list[int] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    moving: bool = False
    """This connection is to be ended, and another opened."""
    more: bool = True


class BankClient(SteppedProgram[ClientThread]):
    def __init__(self, *, group_id: int, servers: tuple[int, ...], requests: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.servers = servers
        self.requests = requests
        self.nonce = 0
        self.taken_count = 0
        self.outcomes: list[Outcome] = []
        self.descriptors: dict[int, int] = {}
        """On which fd each request went out."""
        self.surrender_count = 0
        """Workers that gave up connecting."""

    @property
    def finished(self) -> bool:
        return len(self.outcomes) == self.requests

    @property
    def history(self) -> list[Outcome]:
        return self.outcomes

    # Threads and connections

    def begin(self, argument: Any) -> tuple[ClientThread, Operation | None]:
        thread = ClientThread()
        if argument is None:
            return thread, thread.wait(self.on_nonce, RandomBytes(3))
        thread.worker = argument
        return thread, self.connect(thread)

    def on_nonce(self, thread: ClientThread, result: Any) -> Operation | None:
        self.nonce = int.from_bytes(result, "big")
        return self.hire(thread)

    def hire(self, thread: ClientThread) -> Operation | None:
        if thread.worker == WORKER_COUNT:
            return None
        thread.worker += 1
        return thread.wait(self.on_hired, Spawn(thread.worker))

    def on_hired(self, thread: ClientThread, result: Result) -> Operation | None:
        return self.hire(thread)

    def connect(self, thread: ClientThread) -> Operation | None:
        server = self.servers[thread.worker % len(self.servers)]
        return thread.wait(self.on_connected, Connect(server))

    def on_connected(self, thread: ClientThread, result: Any) -> Operation | None:
        if isinstance(result, Failure):
            thread.attempt_count += 1
            if thread.attempt_count == CONNECT_ATTEMPT_COUNT:
                self.surrender_count += 1
                return None
            return thread.wait(self.on_rested, Sleep(RETRY_PAUSE_NS))
        thread.fd = result
        thread.attempt_count = 0
        thread.inbox = bytearray()
        return thread.wait(self.on_pool_held, Claim(WORK_MUTEX))

    def on_rested(self, thread: ClientThread, result: Result) -> Operation | None:
        return self.connect(thread)

    # Taking work

    def on_pool_held(self, thread: ClientThread, result: Result) -> Operation | None:
        return thread.wait(self.on_drawn, RandomBytes(10))

    def on_drawn(self, thread: ClientThread, result: Any) -> Operation | None:
        thread.draw = result
        count = min(1 + result[0] % BATCH_LIMIT, self.requests - self.taken_count)
        thread.numbers = range(self.taken_count, self.taken_count + count)
        self.taken_count += count
        self.take(thread)
        return thread.wait(self.on_taken, Release(WORK_MUTEX))

    def take(self, thread: ClientThread) -> None:
        """Makes the requests of this batch. Draw bytes: 0 count, 1-4 kinds, 5 writes, 6 without
        reply, 7 sizes, 8 select, 9 change of connection."""
        draw = thread.draw
        frames = []
        for index, number in enumerate(thread.numbers):
            request_id = make_request_id(group_id=self.group_id, nonce=self.nonce, number=number + 1)
            one_way = draw[6] < 40 and number == thread.numbers[-1]
            padding = LARGE_REPLY_BYTES + 20 * draw[7] if draw[7] < 30 else 0
            kind = draw[1 + index] % KIND_COUNT
            request = Request(request_id, kind, one_way, draw[1 + index] >> 4, number % 7, padding)
            frames.append(encode_request(request, LARGE_REQUEST_BYTES if draw[7] > 240 else 0))
            (thread.unconfirmed if one_way else thread.awaited).append(request_id)
            self.descriptors[request_id] = thread.fd
        thread.outgoing = _writes(frames, draw[5])
        thread.moving = draw[9] < 20
        thread.select_count = SELECT_ROUND_COUNT if draw[8] < 60 else 0

    def on_taken(self, thread: ClientThread, result: Result) -> Operation | None:
        if not thread.numbers:
            thread.more = False
            return self.say_farewell(thread)
        return self.write(thread)

    # Requests and replies

    def write(self, thread: ClientThread) -> Operation | None:
        if thread.outgoing:
            return thread.wait(self.on_written, Send(thread.fd, thread.outgoing[0]))
        return self.collect(thread)

    def on_written(self, thread: ClientThread, result: Any) -> Operation | None:
        if isinstance(result, Failure):
            return self.lose(thread)
        thread.outgoing[0] = thread.outgoing[0][result:]
        if not thread.outgoing[0]:
            del thread.outgoing[0]
        return self.write(thread)

    def collect(self, thread: ClientThread) -> Operation | None:
        while thread.awaited:
            body = take_frame(thread.inbox)
            if body is None:
                return self.read(thread)
            self.on_reply(thread, body)
        return thread.wait(self.on_history_held, Claim(WORK_MUTEX))

    def read(self, thread: ClientThread) -> Operation | None:
        if thread.select_count:
            thread.select_count -= 1
            return thread.wait(self.on_selected, Select((thread.fd,), SELECT_TIMEOUT_NS))
        thread.read_count += 1
        limit = READ_LIMITS[thread.read_count % len(READ_LIMITS)]
        return thread.wait(self.on_read, Receive(thread.fd, limit))

    def on_selected(self, thread: ClientThread, result: Result) -> Operation | None:
        return thread.wait(self.on_read, Receive(thread.fd, 4096, blocking=False))

    def on_read(self, thread: ClientThread, result: Any) -> Operation | None:
        if result == WOULD_BLOCK:
            return self.read(thread)
        if isinstance(result, Failure) or not result:
            return self.lose(thread)
        thread.inbox += result
        return self.collect(thread)

    def on_reply(self, thread: ClientThread, body: bytes) -> None:
        reply = decode_reply(body)
        request_id = thread.awaited.pop(0)
        if reply is None or reply.request_id != request_id:
            self.malformed.append(f"request {request_id:#x} was answered with {reply}")
        elif reply.status == OK:
            thread.outcomes.append((request_id, reply))
        else:
            word = INDEFINITE_OUTCOME if reply.status == INDEFINITE else NOT_DONE_OUTCOME
            thread.outcomes.append((request_id, word))

    # The history

    def on_history_held(self, thread: ClientThread, result: Result) -> Operation | None:
        self.outcomes += thread.outcomes
        thread.outcomes = []
        thread.more = self.taken_count < self.requests
        return thread.wait(self.on_noted, Release(WORK_MUTEX))

    def on_noted(self, thread: ClientThread, result: Result) -> Operation | None:
        if thread.fd == 0:
            return self.connect(thread) if thread.more else None
        if thread.moving or not thread.more:
            return self.say_farewell(thread)
        return thread.wait(self.on_pool_held, Claim(WORK_MUTEX))

    # The end of a connection

    def say_farewell(self, thread: ClientThread) -> Operation | None:
        return thread.wait(self.on_half_closed, HalfClose(thread.fd))

    def on_half_closed(self, thread: ClientThread, result: Result) -> Operation | None:
        return thread.wait(self.on_drained, Receive(thread.fd, 4096))

    def on_drained(self, thread: ClientThread, result: Any) -> Operation | None:
        if isinstance(result, Failure):
            return self.lose(thread)
        if result:
            self.malformed.append(f"{len(result)} bytes on fd {thread.fd} that no request asked for")
            return thread.wait(self.on_drained, Receive(thread.fd, 4096))
        thread.outcomes += [(request_id, ACCEPTED_OUTCOME) for request_id in thread.unconfirmed]
        return self.close(thread)

    def lose(self, thread: ClientThread) -> Operation | None:
        under_way = thread.awaited + thread.unconfirmed
        thread.outcomes += [(request_id, INDEFINITE_OUTCOME) for request_id in under_way]
        return self.close(thread)

    def close(self, thread: ClientThread) -> Operation | None:
        thread.awaited = []
        thread.unconfirmed = []
        thread.outgoing = []
        fd, thread.fd = thread.fd, 0
        return thread.wait(self.on_closed, Close(fd))

    def on_closed(self, thread: ClientThread, result: Result) -> Operation | None:
        return thread.wait(self.on_history_held, Claim(WORK_MUTEX))


def _writes(frames: list[bytes], choice: int) -> list[bytes]:
    """Pipelined, batched, or cut where no frame begins."""
    if choice % 3 == 0:
        return frames
    whole = b"".join(frames)
    if choice % 3 == 1 or len(whole) < 2:
        return [whole] if whole else []
    cut = 1 + choice % (len(whole) - 1)
    return [whole[:cut], whole[cut:]]
