"""A server that is itself a client: each request causes one request to the back end.

A thread keeps one connection to the back end for as long as its own client's connection lives. When the
back end resets that connection, whether the request was performed is unknown, and the client
is told so (status INDEFINITE); a back end that cannot be reached is a definite answer (NOT_DONE).
Nothing is ever asked twice.
"""

from __future__ import annotations

from typing import Any

from llft.core.determinizer.operations import (
    Claim,
    Close,
    Connect,
    Failure,
    HalfClose,
    Operation,
    Receive,
    Release,
    Result,
    Send,
    Sleep,
)
from llft.instant import MS
from llft.simulator.workloads.protocol import (
    INDEFINITE,
    INDEFINITE_OUTCOME,
    NOT_DONE,
    NOT_DONE_OUTCOME,
    OK,
    Reply,
    decode_reply,
    encode_reply,
    encode_request,
    make_request_id,
    take_frame,
)
from llft.simulator.workloads.stepped import Outcome
from llft.simulator.workloads.stream_server import ServerThread, StreamServer

ISSUE_MUTEX = 3
CONNECT_ATTEMPT_COUNT = 10
RETRY_PAUSE_NS = 30 * MS


class MiddleServer(StreamServer):
    def __init__(self, *, group_id: int, servers: tuple[int, ...], variant: str) -> None:
        super().__init__(group_id=group_id, variant=variant)
        self.servers = servers
        self.issued_count = 0
        self.outcomes: list[Outcome] = []
        self.descriptors: dict[int, int] = {}

    @property
    def history(self) -> list[Outcome]:
        """Outcomes of the requests to the back end."""
        return self.outcomes

    def perform(self, thread: ServerThread) -> Operation | None:
        thread.attempt_count = 0
        if thread.back_fd == 0:
            return self.connect(thread)
        return thread.wait(self.on_issuing, Claim(ISSUE_MUTEX))

    def connect(self, thread: ServerThread) -> Operation | None:
        return thread.wait(self.on_connected, Connect(self.servers[0]))

    def on_connected(self, thread: ServerThread, result: Any) -> Operation | None:
        if isinstance(result, Failure):
            thread.attempt_count += 1
            if thread.attempt_count < CONNECT_ATTEMPT_COUNT:
                return thread.wait(self.on_rested, Sleep(RETRY_PAUSE_NS))
        else:
            thread.back_fd = result
            thread.back_inbox = bytearray()
        return thread.wait(self.on_issuing, Claim(ISSUE_MUTEX))

    def on_rested(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.connect(thread)

    def on_issuing(self, thread: ServerThread, result: Result) -> Operation | None:
        self.issued_count += 1
        thread.back_id = make_request_id(group_id=self.group_id, nonce=self.nonce, number=self.issued_count)
        self.descriptors[thread.back_id] = thread.back_fd
        return thread.wait(self.on_issued, Release(ISSUE_MUTEX))

    def on_issued(self, thread: ServerThread, result: Result) -> Operation | None:
        if thread.back_fd == 0:
            return self.conclude(thread, Reply(thread.back_id, NOT_DONE, 0, 0, 0))
        request = thread.request._replace(request_id=thread.back_id, one_way=False)
        thread.outgoing = encode_request(request)
        return thread.wait(self.on_asked, Send(thread.back_fd, thread.outgoing))

    def on_asked(self, thread: ServerThread, result: Any) -> Operation | None:
        if isinstance(result, Failure):
            return self.lose(thread)
        thread.outgoing = thread.outgoing[result:]
        if thread.outgoing:
            return thread.wait(self.on_asked, Send(thread.back_fd, thread.outgoing))
        return self.collect(thread)

    def collect(self, thread: ServerThread) -> Operation | None:
        body = take_frame(thread.back_inbox)
        if body is None:
            return thread.wait(self.on_back_read, Receive(thread.back_fd, 4096))
        behind = decode_reply(body)
        if behind is None or behind.request_id != thread.back_id:
            self.malformed.append(f"request {thread.back_id:#x} was answered with {behind}")
            return self.lose(thread)
        return self.conclude(thread, behind)

    def on_back_read(self, thread: ServerThread, result: Any) -> Operation | None:
        if isinstance(result, Failure) or not result:
            return self.lose(thread)
        thread.back_inbox += result
        return self.collect(thread)

    def lose(self, thread: ServerThread) -> Operation | None:
        back_fd, thread.back_fd = thread.back_fd, 0
        return thread.wait(self.on_lost, Close(back_fd))

    def on_lost(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.conclude(thread, Reply(thread.back_id, INDEFINITE, 0, 0, 0))

    def conclude(self, thread: ServerThread, behind: Reply) -> Operation | None:
        thread.observed = behind.status
        thread.balance = behind.sequence
        thread.clock_ns = behind.clock_ns
        thread.draw = behind.digest.to_bytes(8, "big")
        return thread.wait(self.on_concluding, Claim(ISSUE_MUTEX))

    def on_concluding(self, thread: ServerThread, result: Result) -> Operation | None:
        """The reply repeats the back end's clock and digest under this server's own number."""
        digest = int.from_bytes(thread.draw, "big")
        behind = Reply(thread.back_id, thread.observed, thread.balance, thread.clock_ns, digest)
        word = {INDEFINITE: INDEFINITE_OUTCOME, NOT_DONE: NOT_DONE_OUTCOME}.get(behind.status)
        self.outcomes.append((behind.request_id, behind if word is None else word))
        self.sequence += 1
        request = thread.request
        reply = Reply(
            request.request_id, behind.status, self.sequence, behind.clock_ns, digest,
            behind.request_id, behind.sequence if behind.status == OK else 0,
        )  # fmt: skip
        self.answered(reply)
        thread.outgoing = encode_reply(reply, request.reply_padding)
        return thread.wait(self.on_concluded, Release(ISSUE_MUTEX))

    def on_concluded(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.reply(thread, thread.outgoing)

    def hang_up(self, thread: ServerThread) -> Operation | None:
        if thread.back_fd == 0:
            return self.close(thread)
        return thread.wait(self.on_back_half_closed, HalfClose(thread.back_fd))

    def on_back_half_closed(self, thread: ServerThread, result: Result) -> Operation | None:
        return thread.wait(self.on_back_drained, Receive(thread.back_fd, 4096))

    def on_back_drained(self, thread: ServerThread, result: Any) -> Operation | None:
        if result and not isinstance(result, Failure):
            self.malformed.append(f"{len(result)} bytes on fd {thread.back_fd} that no request asked for")
            return thread.wait(self.on_back_drained, Receive(thread.back_fd, 4096))
        back_fd, thread.back_fd = thread.back_fd, 0
        return thread.wait(self.on_back_closed, Close(back_fd))

    def on_back_closed(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.close(thread)
