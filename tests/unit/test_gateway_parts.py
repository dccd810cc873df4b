"""Parts of the gateway that need no network: alarms, virtual threads, the log, addresses."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import Any, cast

import pytest

from llft.core import effects, events
from llft.core.determinizer.operations import Receive, Send, Spawn, Yield
from llft.core.replica import Replica
from llft.errors import InvariantError, MisuseError
from llft.identifiers import BirthId
from llft.instant import MS, NEVER
from llft.runtime.gateway.gateway import Muffler
from llft.runtime.gateway.listeners import Listeners
from llft.runtime.gateway.loop import Loop
from llft.runtime.gateway.shell import RUNS_PER_TURN, Gate, Shell, Steps
from llft.runtime.gateway.stream import address_of
from llft.wire.preamble import Address, Inbound, pack, unpack

# -- the loop --------------------------------------------------------------------------------------


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop(clock: Clock) -> Iterator[Loop]:
    made = Loop(clock=clock)
    yield made
    made.close()


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    made = [os.pipe() for _ in range(2)]
    yield made
    for ends in made:
        for fileno in ends:
            if os.path.exists(f"/proc/self/fd/{fileno}"):
                os.close(fileno)


def test_alarms_ring_in_order_and_once(loop: Loop, clock: Clock) -> None:
    rung: list[str] = []
    loop.alarm(3, lambda: rung.append("late"))
    loop.alarm(1, lambda: rung.append("early"))
    loop.alarm(2, lambda: rung.append("never")).cancel()
    loop.turn(0)
    assert rung == []
    clock.now_ns = 2
    loop.turn(0)
    assert rung == ["early"]
    clock.now_ns = 10
    loop.turn(0)
    loop.turn(0)
    assert rung == ["early", "late"]


def test_a_descriptor_unregistered_in_a_batch_is_not_called_any_more(
    loop: Loop, pipes: list[tuple[int, int]]
) -> None:
    called: list[int] = []

    def handler_of(mine: int, other: int) -> Any:
        def handle(mask: int) -> None:
            called.append(mine)
            loop.unregister(other)

        return handle

    (first, write_first), (second, write_second) = pipes
    loop.register(first, select.EPOLLIN, handler_of(first, second))
    loop.register(second, select.EPOLLIN, handler_of(second, first))
    os.write(write_first, b"x")
    os.write(write_second, b"x")
    loop.turn(0)
    assert len(called) == 1


def test_watched_descriptors_may_be_closed_by_their_owner(loop: Loop, pipes: list[tuple[int, int]]) -> None:
    called: list[int] = []
    (first, _), (second, write_second) = pipes
    loop.watch((first, second), called.append)
    os.close(first)
    loop.watch((second,), called.append)
    os.write(write_second, b"x")
    loop.turn(0)
    assert called == [select.EPOLLIN]
    loop.watch((), called.append)
    loop.turn(0)
    assert called == [select.EPOLLIN]


def test_many_lines_in_a_second_are_summed_up(loop: Loop, clock: Clock) -> None:
    lines: list[str] = []
    log = Muffler(lines.append, loop)
    for number in range(25):
        log(f"line {number}")
    assert lines == [f"line {number}" for number in range(20)]
    clock.now_ns = 1000 * MS
    loop.turn(0)
    assert lines[20:] == ["and 5 more such events"]
    log("again")
    assert lines[21:] == ["again"]


# -- the shell -------------------------------------------------------------------------------------


class ScriptedCore:
    """Completes every operation at once with its name; answers events with what a test has prepared."""

    def __init__(self) -> None:
        self.seen: list[events.Event] = []
        self.prepared: dict[type, list[effects.Effect]] = {}
        self.threads = 0

    def step(self, event: events.Event, now_ns: int) -> list[effects.Effect]:
        self.seen.append(event)
        if isinstance(event, events.Started):
            self.threads = 1
            return [effects.StartApplication()]
        if not isinstance(event, events.OperationInvoked):
            return []
        operation = event.operation
        prepared = self.prepared.pop(type(operation), [])
        if isinstance(operation, Spawn):
            self.threads += 1
            start = effects.StartThread(self.threads, operation.argument)
            return [*prepared, start, effects.ResumeThread(event.thread, self.threads)]
        return [*prepared, effects.ResumeThread(event.thread, type(operation).__name__.encode())]

    def next_deadline(self) -> int:
        return NEVER


class Wire:
    def __init__(self) -> None:
        self.sent: list[tuple[object, bytes]] = []

    def multicast(self, group_id: int, data: bytes, /) -> None:
        self.sent.append((group_id, data))

    def transmit(self, birth_id: BirthId, data: bytes, /) -> None:
        self.sent.append((birth_id, data))

    def receive(self) -> list[bytes]:
        return []

    def filenos(self) -> tuple[int, ...]:
        return ()


def started() -> tuple[Shell, ScriptedCore, Wire]:
    core, wire = ScriptedCore(), Wire()
    shell = Shell(cast(Replica, core), wire)
    shell.step(events.Started(alone=True))
    shell.run()
    return shell, core, wire


@pytest.mark.reference
def test_a_virtual_thread_is_sent_the_results_of_what_it_yields() -> None:
    shell, _, _ = started()
    results: list[object] = []

    def steps() -> Steps:
        results.append((yield Receive(1, 10)))
        results.append((yield Send(1, b"x")))

    shell.begin(steps())
    shell.run()
    assert results == [b"Receive", b"Send"]


@pytest.mark.reference
def test_effects_are_performed_in_order_before_any_thread_goes_on() -> None:
    shell, core, wire = started()
    core.prepared[Receive] = [effects.Multicast(5, b"first"), effects.Transmit(BirthId(1, 2, 3), b"second")]
    seen: list[int] = []

    def steps() -> Steps:
        yield Receive(1, 10)
        seen.append(len(wire.sent))

    shell.begin(steps())
    shell.run()
    assert seen == [2]
    assert wire.sent == [(5, b"first"), (BirthId(1, 2, 3), b"second")]


@pytest.mark.reference
def test_a_thread_that_has_ended_is_used_again() -> None:
    shell, core, _ = started()

    def steps() -> Steps:
        yield Yield()

    for _ in range(3):
        shell.begin(steps())
        shell.run()
    spawned = [
        e for e in core.seen if isinstance(e, events.OperationInvoked) and isinstance(e.operation, Spawn)
    ]
    assert len(spawned) == 1
    assert shell.statistics()["threads"] == 1, "only the main thread is busy"


@pytest.mark.reference
def test_a_gate_lets_one_go_on_for_each_opening() -> None:
    shell, _, _ = started()
    gate = Gate(shell)
    passed: list[int] = []

    def steps() -> Steps:
        for number in range(2):
            yield gate
            passed.append(number)

    gate.open()
    shell.begin(steps())
    shell.run()
    assert passed == [], "an opening that nobody waited for is not kept"
    gate.open()
    gate.open()
    shell.run()
    assert passed == [0]
    gate.open()
    shell.run()
    assert passed == [0, 1]


@pytest.mark.reference
def test_a_busy_thread_does_not_keep_the_turn_for_ever() -> None:
    shell, _, _ = started()
    count = 0

    def busy() -> Steps:
        nonlocal count
        while True:
            yield Yield()
            count += 1

    shell.begin(busy())
    shell.run()
    assert 0 < count <= RUNS_PER_TURN
    assert shell.runs, "it goes on in the next turn"


@pytest.mark.reference
def test_a_gateway_is_neither_captured_nor_restored() -> None:
    shell, core, _ = started()

    def steps() -> Steps:
        yield Receive(1, 1)

    core.prepared[Receive] = [effects.CaptureState()]
    shell.begin(steps())
    with pytest.raises(InvariantError, match="gateway_captured"):
        shell.run()


@pytest.mark.reference
@pytest.mark.parametrize("effect", [effects.ResetApplication(), effects.Stop("left")])
def test_the_end_of_the_core_is_the_end_of_the_shell(effect: effects.Effect) -> None:
    shell, core, _ = started()

    def steps() -> Steps:
        yield Receive(1, 1)
        raise AssertionError("nothing goes on after the end")

    core.prepared[Receive] = [effect]
    shell.begin(steps())
    shell.run()
    shell.run()
    assert shell.over


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (("127.0.0.1", 80), Address("127.0.0.1", 80)),
        (("::1", 80, 0, 0), Address("::1", 80)),
        (("fe80::1%eth0", 80, 0, 2), Address("fe80::1", 80)),
        (("::ffff:10.1.2.3", 80, 0, 0), Address("::ffff:a01:203", 80)),
    ],
)
def test_names_of_sockets_fit_into_a_preamble(name: Any, expected: Address) -> None:
    address = address_of(name)
    assert unpack(pack(Inbound(address, address))) == Inbound(expected, expected)


@pytest.mark.parametrize(
    ("host", "port", "condition"),
    [
        ("example.org", 80, "address_not_numeric"),
        ("1.2.3", 80, "address_not_numeric"),
        ("127.0.0.1", 65_536, "port_out_of_range"),
        ("127.0.0.1", -1, "port_out_of_range"),
        ("192.0.2.1", 0, "cannot_listen"),
    ],
)
def test_addresses_that_cannot_be_listened_on(loop: Loop, host: str, port: int, condition: str) -> None:
    listeners = Listeners(loop, lambda connection, source: None, lambda text: None)
    with pytest.raises(MisuseError, match=condition):
        listeners.listen(host, port)
    assert listeners.addresses == []
