"""The determinizer figure of the paper: the thread on the left (1-22), the algorithm on the right (23-41)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from llft.config import ThreadMode
from llft.core.determinizer.determinizer import Determinizer
from llft.core.determinizer.operation_ids import SPAWN
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Accept,
    Claim,
    Failure,
    Operation,
    ReadClock,
    Receive,
    Release,
    Send,
    Spawn,
    TryClaim,
)
from llft.core.determinizer.replay_gate import ReplayGate
from llft.errors import DivergenceError
from llft.wire.order import GENERAL, MUTEX, READ, SEND, SOCKET, TIME, Entry
from tests.unit.determinizer_world import FakeConnections

MODES = pytest.mark.parametrize("mode", list(ThreadMode), ids=lambda mode: mode.value)
MTX, FD, TIMEOUT_NS = 1, 1, 40


def claim(thread: int, count: int, mutex: int = MTX) -> Entry:
    return (MUTEX, 0, thread, mutex, count, 1)


class TestReplayGate:
    """Lines 29-41 alone."""

    def test_lines_29_to_31_and_37_to_41_the_first_entry_is_consumed_by_its_thread(self) -> None:
        gate = ReplayGate()
        assert gate.intercept(1, (MUTEX, MTX), 1) is None
        assert gate.append(claim(1, 1), 9) == 1
        assert gate.outstanding == 1
        assert gate.intercept(1, (MUTEX, MTX), 1) == (9, claim(1, 1))
        assert gate.outstanding == 0
        assert gate.first((MUTEX, MTX)) is None

    def test_lines_32_and_33_the_first_thread_is_named_not_the_one_that_came(self) -> None:
        gate = ReplayGate()
        assert gate.append(claim(2, 1)) == 2
        assert gate.append(claim(1, 2)) == 2

    def test_lines_38_and_39_a_thread_waits_for_its_turn(self) -> None:
        gate = ReplayGate()
        gate.append(claim(2, 1))
        gate.append(claim(1, 2))
        assert gate.intercept(1, (MUTEX, MTX), 1) is None
        assert gate.intercept(2, (MUTEX, MTX), 1) is not None
        assert gate.first((MUTEX, MTX)) == 1
        assert gate.intercept(1, (MUTEX, MTX), 2) is not None

    def test_operations_do_not_wait_for_one_another(self) -> None:
        gate = ReplayGate()
        gate.append(claim(2, 1, mutex=7))
        gate.append(claim(1, 1, mutex=8))
        assert gate.intercept(1, (MUTEX, 8), 1) is not None

    def test_line_36_a_wrong_count_never_resolves(self) -> None:
        gate = ReplayGate()
        gate.append(claim(1, 2))
        with pytest.raises(DivergenceError):
            gate.intercept(1, (MUTEX, MTX), 1)

    def test_line_35_another_operation_than_the_thread_did_never_resolves(self) -> None:
        gate = ReplayGate()
        gate.append(claim(1, 1))
        with pytest.raises(DivergenceError) as caught:
            gate.intercept(1, (SOCKET, FD), 1)
        assert caught.value.parameters["expected"] == claim(1, 1)
        assert caught.value.parameters["found"] == (SOCKET, FD)


class Example:
    """The example thread, twice over, on one socket and one mutex, and its data LD1-LD5 and SD1."""

    def __init__(self) -> None:
        self.local: dict[int, list[object]] = {}
        self.shared: list[int] = []
        self.threads: dict[int, Generator[Operation, Any, None]] = {}

    def run(self, what: str, thread: int, value: object) -> Operation | None:
        if what == "start":
            self.threads[thread] = self.main() if thread == 1 else self.example(thread)
            value = None
        try:
            return self.threads[thread].send(value)
        except StopIteration:
            return None

    def main(self) -> Generator[Operation, Any, None]:
        yield Accept()
        for _ in range(2):
            yield Spawn(None)

    def example(self, thread: int) -> Generator[Operation, Any, None]:
        data = self.local[thread] = []
        queued = b""
        for _ in range(4):
            begun_ns = yield ReadClock()  # 1
            data.append(("LD1", begun_ns))  # 2
            message = yield Receive(FD, 8, blocking=False)  # 3
            if not isinstance(message, Failure):  # 4
                data.append(("LD2", message))  # 5
                written = yield Send(FD, message + b"!", blocking=False)  # 6, 7
                if isinstance(written, Failure):  # 8
                    data.append(("LD3", written))  # 9
                    queued += message  # 10
            else:
                data.append(("LD3", message))  # 11
                if queued:
                    yield Send(FD, queued)  # 12
                    queued = b""
            now_ns = yield ReadClock()  # 13
            data.append(("LD1", now_ns))  # 14
            if now_ns - begun_ns > TIMEOUT_NS:  # 15
                data.append(("LD4", now_ns))  # 16, 17
            claimed = yield TryClaim(MTX)  # 18
            if claimed:  # 19
                yield Claim(MTX + 1)
                self.shared.append(thread)  # 20
                yield Release(MTX + 1)
                yield Release(MTX)  # 21
            else:
                data.append(("LD5", claimed))  # 22


class Host:
    def __init__(self, mode: ThreadMode, skew_ns: int, last_first: bool) -> None:
        self.example, self.connections = Example(), FakeConnections(3, 1)
        self.log: list[Entry] = []
        self.now_ns, self.last_first, self.skew_ns = 0, last_first, skew_ns
        self.ready: list[tuple[Any, int, object]] = []
        self.determinizer = Determinizer(
            mode, self.connections, self.log.append, lambda _: self.now_ns + self.skew_ns, bytes
        )

    def run(self) -> None:
        self.ready += self.determinizer.drain()
        while self.ready:
            what, thread, value = self.ready.pop(-1 if self.last_first else 0)
            self.now_ns += 7 * thread
            operation = self.example.run(what, thread, value)
            if operation is None:
                self.determinizer.thread_ended(thread)
            else:
                self.determinizer.invoke(thread, operation, self.now_ns)
            self.ready += self.determinizer.drain()


def _arriving(connections: FakeConnections) -> Any:
    accept = FakeConnections.accept

    def accept_with_data(connection_id: Any) -> int:
        fd = accept(connections, connection_id)
        connections.descriptors[fd].stream = b"one two three four"
        connections.descriptors[fd].arrived = 18
        return fd

    return accept_with_data


@MODES
def test_lines_1_to_22_the_example_thread_is_alike_at_primary_and_backup(mode: ThreadMode) -> None:
    primary = Host(mode, 0, last_first=False)
    primary.connections.accept = _arriving(primary.connections)  # type: ignore[method-assign]
    primary.connections.visible = 1
    primary.determinizer.go_live(0)
    primary.determinizer.start()
    primary.run()
    backup = Host(mode, 10**9, last_first=True)
    backup.connections.accept = _arriving(backup.connections)  # type: ignore[method-assign]
    backup.determinizer.start()
    for entry in primary.log:
        backup.determinizer.follow(entry)
    backup.run()
    assert backup.determinizer.caught_up
    assert backup.example.local == primary.example.local
    assert backup.example.shared == primary.example.shared
    assert backup.connections.output() == primary.connections.output()
    seen = {item[0] for data in primary.example.local.values() for item in data if isinstance(item, tuple)}
    assert {"LD1", "LD2", "LD3"} <= seen
    assert len(primary.example.shared) > 0
    failed = [
        item for data in primary.example.local.values() for item in data if item == ("LD3", WOULD_BLOCK)
    ]
    assert failed, "the event of failing to receive is ordered, too"


def test_lines_23_to_28_the_primary_appends_what_its_calls_returned() -> None:
    host = Host(ThreadMode.ORDERED, 0, last_first=False)
    host.connections.accept = _arriving(host.connections)  # type: ignore[method-assign]
    host.connections.visible = 1
    host.determinizer.go_live(0)
    host.determinizer.start()
    host.run()
    first, *_ = host.log
    assert first[:5] == (SOCKET, 0, 1, 0, 1)
    spawned = [entry for entry in host.log if entry[:1] == (GENERAL,)]
    assert spawned == [(GENERAL, 0, 1, SPAWN, 1, b""), (GENERAL, 0, 1, SPAWN, 2, b"")]
    assert {entry[0] for entry in host.log} == {READ, SEND, MUTEX, TIME, SOCKET, GENERAL}
    counts = [entry[4] for entry in host.log if entry[0] == MUTEX and entry[3] == MTX]
    assert counts == list(range(1, len(counts) + 1)), "N counts for any thread"


def test_releases_are_ordered_too_and_a_failed_trylock_is_not_tried_again() -> None:
    """Paper, Generic Algorithm (both claims and releases) and Multi-Threading."""
    primary = Host(ThreadMode.ORDERED, 0, last_first=False)
    determinizer = primary.determinizer
    determinizer.go_live(0)
    determinizer.start()
    determinizer.invoke(1, Spawn(None), 0)
    determinizer.drain()
    determinizer.invoke(1, Claim(MTX), 0)
    determinizer.invoke(2, TryClaim(MTX), 0)
    determinizer.invoke(1, Release(MTX), 0)
    assert determinizer.drain() == [("resume", 1, True), ("resume", 2, False), ("resume", 1, True)]
    assert [entry[2:] for entry in primary.log[1:]] == [(1, MTX, 1, 1), (2, MTX, 2, 0), (1, MTX, 3, 1)]

    backup = Host(ThreadMode.ORDERED, 0, last_first=False).determinizer
    backup.start()
    for entry in primary.log:
        backup.follow(entry)
    backup.invoke(1, Spawn(None), 0)
    backup.drain()
    backup.invoke(2, TryClaim(MTX), 0)
    assert backup.drain() == [], "thread 2 is suspended until thread 1 has claimed"
    backup.invoke(1, Claim(MTX), 0)
    assert backup.drain() == [("resume", 1, True), ("resume", 2, False)]
