"""What the servers share: taking connections, reading requests from a byte stream, replying.

Two ways of threading, as real servers have: a thread per connection, spawned by the main
thread, which waits now in accept, now in select; or a crew of threads that all wait in accept
and serve what they get (variants ending in "-pool"). The crew grows when its last idle thread
takes a connection, because connections may stay open as long as they like.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Accept,
    Claim,
    Close,
    Failure,
    HalfClose,
    Operation,
    RandomBytes,
    Receive,
    Release,
    Result,
    Select,
    Send,
    Spawn,
)
from llft.instant import SECOND
from llft.simulator.workloads.protocol import Reply, Request, decode_request, take_frame
from llft.simulator.workloads.stepped import Outcome, SteppedProgram, Thread

CREW_MUTEX = 10
CREW_SIZE = 3
READ_LIMITS = (4096, 16, 512, 65536)
LISTEN_TIMEOUT_NS = 60 * SECOND
"""So long that it does not pass in a simulation: an idle server is silent."""

CREW_ARGUMENT = "crew"
NO_REQUEST = Request(0, 0, False, 0, 0, 0)


@dataclass(slots=True)
class ServerThread(Thread):
    fd: int = 0
    inbox: bytearray = field(default_factory=bytearray)
    outgoing: bytes = b""
    request: Request = NO_REQUEST
    ended: bool = False
    """The client's stream has ended."""
    read_count: int = 0
    accept_count: int = 0
    spawn_count: int = 0
    clock_ns: int = 0
    draw: bytes = b""
    balance: int = 0
    observed: int = 0
    borrowed: bool = False
    back_fd: int = 0
    back_inbox: bytearray = field(default_factory=bytearray)
    back_id: int = 0
    attempt_count: int = 0


class StreamServer(SteppedProgram[ServerThread]):
    """A program that answers each request of each connection, in the connection's order."""

    def __init__(self, *, group_id: int, variant: str) -> None:
        super().__init__()
        self.group_id = group_id
        self.variant = variant
        self.racy = variant.startswith("racy")
        self.pooled = variant.endswith("-pool")
        self.nonce = 0
        self.idle_count = CREW_SIZE
        self.sequence = 0
        self.digest = 0
        self.replies: dict[int, Reply] = {}
        """What was answered to each request id; of requests without reply, what would have been."""
        self.duplicates: list[int] = []
        """Request ids that were performed again."""

    @property
    def finished(self) -> bool:
        """A server serves for ever; it never keeps the simulation waiting."""
        return True

    @property
    def history(self) -> list[Outcome]:
        """Outcomes of the requests that this program itself made: none of a mere server."""
        return []

    def perform(self, thread: ServerThread) -> Operation | None:
        """Performs `thread.request`, and ends with `reply`."""
        raise NotImplementedError

    def hang_up(self, thread: ServerThread) -> Operation | None:
        """Called when a connection is over, before its fd is closed; ends with `close`."""
        return self.close(thread)

    # Threads

    def begin(self, argument: Any) -> tuple[ServerThread, Operation | None]:
        thread = ServerThread()
        if argument is None:
            return thread, thread.wait(self.on_nonce, RandomBytes(3))
        if argument == CREW_ARGUMENT:
            return thread, self.listen(thread)
        thread.fd = argument[0]
        return thread, self.next_request(thread)

    def on_nonce(self, thread: ServerThread, result: Any) -> Operation | None:
        self.nonce = int.from_bytes(result, "big")
        return self.hire(thread) if self.pooled else self.listen(thread)

    def hire(self, thread: ServerThread) -> Operation | None:
        if thread.spawn_count == CREW_SIZE - 1:
            return self.listen(thread)
        thread.spawn_count += 1
        return thread.wait(self.on_hired, Spawn(CREW_ARGUMENT))

    def on_hired(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.hire(thread)

    def listen(self, thread: ServerThread) -> Operation | None:
        thread.accept_count += 1
        if self.pooled or thread.accept_count % 2:
            return thread.wait(self.on_accepted, Accept())
        return thread.wait(self.on_connection_waiting, Select((0,), LISTEN_TIMEOUT_NS))

    def on_connection_waiting(self, thread: ServerThread, result: Result) -> Operation | None:
        return thread.wait(self.on_accepted, Accept(blocking=False))

    def on_accepted(self, thread: ServerThread, result: Any) -> Operation | None:
        if isinstance(result, Failure):
            return self.listen(thread)
        fd, client_group_id = result
        if not self.pooled:
            return thread.wait(self.on_spawned, Spawn([fd, client_group_id]))
        thread.fd = fd
        thread.inbox = bytearray()
        thread.ended = False
        return thread.wait(self.on_leaving_crew, Claim(CREW_MUTEX))

    def on_spawned(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.listen(thread)

    def on_leaving_crew(self, thread: ServerThread, result: Result) -> Operation | None:
        if self.idle_count == 1:
            return thread.wait(self.on_substitute_hired, Spawn(CREW_ARGUMENT))
        self.idle_count -= 1
        return thread.wait(self.on_left_crew, Release(CREW_MUTEX))

    def on_substitute_hired(self, thread: ServerThread, result: Result) -> Operation | None:
        return thread.wait(self.on_left_crew, Release(CREW_MUTEX))

    def on_left_crew(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.next_request(thread)

    def on_closed(self, thread: ServerThread, result: Result) -> Operation | None:
        return thread.wait(self.on_joining_crew, Claim(CREW_MUTEX)) if self.pooled else None

    def on_joining_crew(self, thread: ServerThread, result: Result) -> Operation | None:
        self.idle_count += 1
        return thread.wait(self.on_joined_crew, Release(CREW_MUTEX))

    def on_joined_crew(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.listen(thread)

    # One connection

    def next_request(self, thread: ServerThread) -> Operation | None:
        body = take_frame(thread.inbox)
        if body is not None:
            thread.request = decode_request(body)
            return self.perform(thread)
        if thread.ended:
            return self.hang_up(thread)
        limit = READ_LIMITS[thread.read_count % len(READ_LIMITS)]
        thread.read_count += 1
        return thread.wait(self.on_read, Receive(thread.fd, limit))

    def on_read(self, thread: ServerThread, result: Any) -> Operation | None:
        if isinstance(result, Failure):
            return self.abandon(thread)
        thread.ended = not result
        thread.inbox += result
        return self.next_request(thread)

    def reply(self, thread: ServerThread, data: bytes) -> Operation | None:
        """Writes the reply, if there is to be one, and goes on with the next request."""
        if thread.request.one_way:
            return self.next_request(thread)
        thread.outgoing = data
        patient = thread.read_count % 3 != 0
        return thread.wait(self.on_written, Send(thread.fd, data, blocking=patient))

    def on_written(self, thread: ServerThread, result: Any) -> Operation | None:
        if result == WOULD_BLOCK:
            return thread.wait(self.on_written, Send(thread.fd, thread.outgoing))
        if isinstance(result, Failure):
            return self.abandon(thread)
        thread.outgoing = thread.outgoing[result:]
        if thread.outgoing:
            return thread.wait(self.on_written, Send(thread.fd, thread.outgoing))
        return self.next_request(thread)

    def abandon(self, thread: ServerThread) -> Operation | None:
        """The connection was reset: what it still had to say is gone."""
        thread.ended = True
        thread.inbox = bytearray()
        thread.outgoing = b""
        return self.hang_up(thread)

    def close(self, thread: ServerThread) -> Operation | None:
        """Half of the connections end in two steps, so that both ways of ending are seen."""
        if thread.fd % 2:
            return thread.wait(self.on_half_closed, HalfClose(thread.fd))
        return thread.wait(self.on_closed, Close(thread.fd))

    def on_half_closed(self, thread: ServerThread, result: Result) -> Operation | None:
        return thread.wait(self.on_closed, Close(thread.fd))

    def answered(self, reply: Reply) -> None:
        """Notes the reply in the shared data. The caller holds their mutex."""
        if reply.request_id in self.replies:
            self.duplicates.append(reply.request_id)
        self.replies[reply.request_id] = reply
