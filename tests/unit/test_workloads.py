"""The application programs, run in a perfect world: one replica each, nothing is lost, nobody dies.

The world runs one thread at a time, chosen at random among those that can go on, so that many
interleavings are seen; with `reset_share` it also resets connections, which clients must survive.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest

from llft.core.determinizer.operations import (
    BAD_DESCRIPTOR,
    REFUSED,
    RESET,
    WOULD_BLOCK,
    Accept,
    Claim,
    Close,
    Connect,
    HalfClose,
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
    Select,
    Send,
    Sleep,
    Spawn,
    TryClaim,
)
from llft.errors import MisuseError
from llft.simulator.workloads import BankClient, BankServer, MiddleServer, build_program
from llft.simulator.workloads.protocol import (
    ACCEPTED_OUTCOME,
    INDEFINITE_OUTCOME,
    Reply,
    Request,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    group_of_request,
    make_request_id,
    take_frame,
)

WAITING = object()
STEP_LIMIT = 200_000


class Pipe:
    """One end of a connection."""

    def __init__(self) -> None:
        self.inbox = bytearray()
        self.ended = False
        self.reset = False
        self.peer: Pipe = self


class Host:
    """A group of one replica: its program and everything that its operations refer to."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.mutexes: dict[int, int] = {}
        self.pipes: dict[int, Pipe] = {}
        self.backlog: deque[tuple[Pipe, int]] = deque()
        self.thread_count = 0
        self.waiting: dict[int, tuple[Operation, int]] = {}
        self.newborn: list[tuple[int, object]] = []

    def start(self, argument: object, now_ns: int) -> int:
        self.thread_count += 1
        self.park(self.thread_count, self.program.start_thread(self.thread_count, argument), now_ns)
        return self.thread_count

    def park(self, thread: int, operation: Operation | None, now_ns: int) -> None:
        if operation is not None:
            self.waiting[thread] = (operation, now_ns)


class PerfectWorld:
    def __init__(self, seed: int, programs: dict[int, Any], reset_share: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.now_ns = 0
        self.reset_share = reset_share
        self.largest_bytes = 0
        self.hosts = {group_id: Host(program) for group_id, program in programs.items()}
        self.group_ids = {id(host): group_id for group_id, host in self.hosts.items()}
        for host in self.hosts.values():
            host.start(None, 0)

    def run(self) -> None:
        for _ in range(STEP_LIMIT):
            self.now_ns += self.rng.randint(1, 20_000)
            if not self.step() and not self.skip_time():
                return
        raise AssertionError("the programs do not come to rest")

    def step(self) -> bool:
        """Completes one operation; False if every thread waits."""
        candidates = [(host, thread) for host in self.hosts.values() for thread in host.waiting]
        self.rng.shuffle(candidates)
        for host, thread in candidates:
            operation, since_ns = host.waiting[thread]
            result = self.perform(host, thread, operation, since_ns)
            if result is WAITING:
                continue
            del host.waiting[thread]
            host.park(thread, host.program.resume(thread, result), self.now_ns)
            return True
        return False

    def skip_time(self) -> bool:
        """Everybody waits: let the first timeout pass that is not the servers' endless one."""
        timeouts = [
            since_ns + (operation.duration_ns if isinstance(operation, Sleep) else operation.timeout_ns)
            for host in self.hosts.values()
            for operation, since_ns in host.waiting.values()
            if isinstance(operation, Sleep) or (isinstance(operation, Select) and operation.fds != (0,))
        ]
        self.now_ns = max(self.now_ns, min(timeouts, default=0))
        return bool(timeouts)

    def perform(self, host: Host, thread: int, operation: Any, since_ns: int) -> Any:
        match operation:
            case Claim(mutex) | TryClaim(mutex):
                if mutex in host.mutexes:
                    return WAITING if isinstance(operation, Claim) else False
                host.mutexes[mutex] = thread
                return True
            case Release(mutex):
                assert host.mutexes.pop(mutex) == thread
                return True
            case ReadClock():
                return self.now_ns
            case RandomBytes(size):
                return self.rng.randbytes(size)
            case Sleep(duration_ns):
                return None if self.now_ns >= since_ns + duration_ns else WAITING
            case Spawn(argument):
                return host.start(argument, self.now_ns)
            case Connect(group_id):
                return self.connect(host, group_id)
            case Accept(blocking):
                return self.accept(host, blocking)
            case Select(fds, timeout_ns):
                ready = tuple(fd for fd in fds if self.readable(host, fd))
                return ready if ready or self.now_ns >= since_ns + timeout_ns else WAITING
        return self.perform_on_pipe(host, operation)

    def connect(self, host: Host, group_id: int) -> Any:
        if group_id not in self.hosts or self.rng.random() < self.reset_share:
            return REFUSED
        here, there = Pipe(), Pipe()
        here.peer, there.peer = there, here
        host.pipes[len(host.pipes) + 1] = here
        self.hosts[group_id].backlog.append((there, self.group_ids[id(host)]))
        return len(host.pipes)

    def accept(self, host: Host, blocking: bool) -> Any:
        if not host.backlog:
            return WAITING if blocking else WOULD_BLOCK
        pipe, client_group_id = host.backlog.popleft()
        host.pipes[len(host.pipes) + 1] = pipe
        return len(host.pipes), client_group_id

    def readable(self, host: Host, fd: int) -> bool:
        if fd == 0:
            return bool(host.backlog)
        pipe = host.pipes[fd]
        return bool(pipe.inbox or pipe.ended or pipe.reset)

    def perform_on_pipe(self, host: Host, operation: Any) -> Any:
        if not hasattr(operation, "fd"):
            return None
        pipe = host.pipes.get(operation.fd)
        if pipe is None:
            return BAD_DESCRIPTOR
        if isinstance(operation, HalfClose | Close):
            pipe.peer.ended = True
            return None
        if pipe.reset or self.rng.random() < self.reset_share:
            pipe.reset = pipe.peer.reset = True
            return RESET
        if isinstance(operation, Send):
            pipe.peer.inbox += operation.payload
            self.largest_bytes = max(self.largest_bytes, len(operation.payload))
            return len(operation.payload)
        assert isinstance(operation, Receive)
        if not pipe.inbox and not pipe.ended:
            return WAITING if operation.blocking else WOULD_BLOCK
        size = self.rng.randint(1, operation.limit) if pipe.inbox else 0
        data = bytes(pipe.inbox[:size])
        del pipe.inbox[:size]
        return data


def bank(variant: str, requests: int = 60) -> dict[int, Any]:
    clients = {
        number: build_program("client", group_id=number, servers=(100,), requests=requests, variant="locked")
        for number in (1, 2)
    }
    server = build_program("server", group_id=100, servers=(), requests=0, variant=variant)
    return {**clients, 100: server}


def assert_explained(client: BankClient | MiddleServer, server: BankServer | MiddleServer) -> None:
    for request_id, outcome in client.history:
        if isinstance(outcome, Reply):
            assert server.replies[request_id] == outcome
        elif outcome == ACCEPTED_OUTCOME:
            assert request_id in server.replies


def assert_numbered(server: BankServer | MiddleServer) -> None:
    assert not server.duplicates
    assert [reply.sequence for reply in server.replies.values()] == list(range(1, server.sequence + 1))


@pytest.mark.parametrize("variant", ["locked", "locked-pool", "racy", "racy-pool"])
@pytest.mark.parametrize("seed", range(4))
def test_bank_finishes_and_replies_check(variant: str, seed: int) -> None:
    programs = bank(variant)
    PerfectWorld(seed, programs).run()
    server = programs[100]
    assert_numbered(server)
    assert server.sequence == 120
    for number in (1, 2):
        client = programs[number]
        assert client.finished
        assert not client.malformed
        assert not client.threads
        assert len({request_id for request_id, _ in client.history}) == 60
        assert INDEFINITE_OUTCOME not in [outcome for _, outcome in client.history]
        assert_explained(client, server)


@pytest.mark.parametrize("seed", range(6))
def test_resets_make_requests_indefinite_and_clients_go_on(seed: int) -> None:
    programs = bank("locked")
    PerfectWorld(seed, programs, reset_share=0.01).run()
    assert_numbered(programs[100])
    outcomes = [outcome for number in (1, 2) for _, outcome in programs[number].history]
    assert INDEFINITE_OUTCOME in outcomes
    for number in (1, 2):
        assert programs[number].finished
        assert not programs[number].malformed
        assert_explained(programs[number], programs[100])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reset_share", [0.0, 0.005])
def test_middle_server_asks_the_back_end_once_per_request(seed: int, reset_share: float) -> None:
    programs = bank("locked")
    middle = build_program("middle", group_id=50, servers=(100,), requests=0, variant="locked-pool")
    assert isinstance(middle, MiddleServer)
    for number in (1, 2):
        programs[number].servers = (50,)
    programs[50] = middle
    PerfectWorld(seed, programs, reset_share).run()
    assert_numbered(programs[100])
    assert_numbered(middle)
    assert_explained(middle, programs[100])
    assert len(middle.history) == len(middle.replies)
    for number in (1, 2):
        assert programs[number].finished
        assert_explained(programs[number], middle)
    for reply in middle.replies.values():
        if reply.behind_sequence:
            behind = programs[100].replies[reply.behind_id]
            assert (behind.sequence, behind.digest) == (reply.behind_sequence, reply.digest)


def test_every_kind_of_outcome_and_contention_occurs() -> None:
    """The workload is worth nothing if the rare paths are never taken."""
    contention_count = accepted_count = connection_count = largest_bytes = 0
    for seed in range(6):
        programs = bank("locked")
        world = PerfectWorld(seed, programs)
        world.run()
        largest_bytes = max(largest_bytes, world.largest_bytes)
        contention_count += programs[100].contention_count
        outcomes = [outcome for number in (1, 2) for _, outcome in programs[number].history]
        accepted_count += outcomes.count(ACCEPTED_OUTCOME)
        connection_count += len(set(programs[1].descriptors.values()))
    assert contention_count > 0
    assert accepted_count > 0
    assert connection_count > 12, "each of the two workers keeps its first connection"
    assert largest_bytes > 2000, "nothing has to be fragmented"


@pytest.mark.parametrize("variant", ["locked", "racy-pool"])
def test_captured_programs_go_on_identically_elsewhere(variant: str) -> None:
    """Every program is captured and restored into a fresh one again and again; nothing changes."""
    plain, moved = bank(variant), bank(variant)
    PerfectWorld(7, plain).run()
    world = PerfectWorld(7, moved)
    for count in range(STEP_LIMIT):
        world.now_ns += world.rng.randint(1, 20_000)
        if not world.step() and not world.skip_time():
            break
        if count % 10 == 0:
            for group_id, host in world.hosts.items():
                fresh = bank(variant)[group_id]
                fresh.restore(host.program.capture())
                host.program = moved[group_id] = fresh
    assert moved[100].replies == plain[100].replies
    assert moved[1].history == plain[1].history


def test_frames_survive_any_cut() -> None:
    request = Request(make_request_id(group_id=3, nonce=9, number=5), 2, True, 7, -4, 100)
    stream = encode_request(request, 10) * 2
    inbox = bytearray()
    bodies = []
    for byte in stream:
        inbox.append(byte)
        while (body := take_frame(inbox)) is not None:
            bodies.append(decode_request(body))
    assert bodies == [request, request]
    assert group_of_request(request.request_id) == 3


def test_damaged_padding_is_noticed() -> None:
    inbox = bytearray(encode_reply(Reply(1, 0, 1, 5, 77), 50))
    body = take_frame(inbox)
    assert body is not None
    assert decode_reply(body) == Reply(1, 0, 1, 5, 77)
    assert decode_reply(body[:-1] + b"?") is None


def test_unknown_kinds_and_variants_are_refused() -> None:
    with pytest.raises(MisuseError):
        build_program("bank", group_id=1, servers=(), requests=1, variant="locked")
    with pytest.raises(MisuseError):
        build_program("server", group_id=1, servers=(), requests=1, variant="tidy")
