"""The gateway between real TCP clients and a replicated server."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from llft.core.determinizer.operations import Close, Connect, Failure, HalfClose, Receive, Send
from llft.identifiers import BirthId
from llft.instant import MS
from llft.runtime.gateway import gateway
from llft.runtime.gateway.relay import UNSENT_BYTES_MAX
from llft.runtime.gateway.shell import Steps
from llft.wire.preamble import PREAMBLE_BYTES, Address, Answer, Inbound, Outbound, pack, unpack
from tests.live.gateway_world import GATEWAY_GROUP, Hub, World, receive_exactly, take
from tests.live.relayed_hub import LoopbackHub, compiled_relaying


class Worlds(list[World]):
    """Worlds that a test makes are closed at its end."""

    hub: Callable[[], Hub] = Hub


@pytest.fixture(params=["stepped", "relayed"])
def worlds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worlds]:
    """Relayed: what C can pass on (D-76) it does, on real sockets."""
    made = Worlds()
    if request.param == "relayed":
        compiled_relaying(monkeypatch)
        made.hub = LoopbackHub
    yield made
    for world in made:
        world.close()


def make(worlds: Worlds, **options: Any) -> World:
    world = World(hub=worlds.hub(), **options)
    worlds.append(world)
    return world


def over(world: World) -> None:
    """Nothing of any connection is left, on any side."""
    core = world.gateway.shell.core
    world.until(lambda: not world.gateway.relays, "no relay is left")
    world.until(lambda: not len(core.messaging.table), "the gateway's core has forgotten it")
    world.until(lambda: not len(world.primary.core.messaging.table), "the server's core has forgotten it")
    statistics = world.gateway.shell.statistics()
    assert statistics["threads"] == 2, f"main, and the one that accepts groups: {statistics}"


def fill(client: socket.socket) -> int:
    """Write until it would block; how many bytes went."""
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += client.send(b"x" * 65_536)
    return sent


def reset(client: socket.socket) -> None:
    """End a connection like a crashed program whose data was not read."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def read_to_reset(world: World, client: socket.socket, seconds: float = 5.0) -> None:
    with pytest.raises(ConnectionResetError):
        world.read(client, 1 << 40, seconds)


# -- ordinary life ---------------------------------------------------------------------------------


def test_bytes_go_both_ways_and_both_sides_end(worlds: Worlds) -> None:
    world = make(worlds)
    client = world.connect()
    client.sendall(b"hello")
    assert world.read(client, 5) == b"hello"
    client.sendall(b"again")
    assert world.read(client, 5) == b"again"
    client.shutdown(socket.SHUT_WR)
    assert world.read(client, 1) == b""
    over(world)
    assert world.gateway.counts.ends == {"closed": 1}
    assert (world.gateway.counts.bytes_in, world.gateway.counts.bytes_out) == (10, 10)


def test_the_server_learns_who_the_client_is(worlds: Worlds) -> None:
    def tell(fd: int, preamble: Inbound) -> Steps:
        yield Send(fd, pack(preamble))
        yield Close(fd)

    world = make(worlds, handler=tell)
    client = world.connect()
    preamble = unpack(world.read(client, PREAMBLE_BYTES))
    assert preamble == Inbound(world.address, Address(*client.getsockname()))


def test_a_client_that_has_half_closed_still_gets_its_answer(worlds: Worlds) -> None:
    def count(fd: int, preamble: Inbound) -> Steps:
        size = 0
        while data := (yield Receive(fd, 65_536)):
            size += len(data)
        yield Send(fd, b"%d" % size)
        yield Close(fd)

    world = make(worlds, handler=count)
    client = world.connect()
    client.sendall(b"x" * 100_000)
    client.shutdown(socket.SHUT_WR)
    assert world.read(client, 100) == b"100000"
    over(world)


def test_a_server_that_has_half_closed_still_reads(worlds: Worlds) -> None:
    def greet(fd: int, preamble: Inbound) -> Steps:
        yield Send(fd, b"go on")
        yield HalfClose(fd)
        data = yield from receive_exactly(fd, 3)
        assert data == b"bye"
        heard.append(data)
        yield Close(fd)

    heard: list[bytes] = []
    world = make(worlds, handler=greet)
    client = world.connect()
    assert world.read(client, 100) == b"go on"
    client.sendall(b"bye")
    world.until(lambda: heard, "the server read on")
    client.close()
    over(world)


def test_many_connections_at_once(worlds: Worlds) -> None:
    world = make(worlds)
    clients = [world.connect() for _ in range(100)]
    for number, client in enumerate(clients):
        client.sendall(b"%04d" % number)
    assert [world.read(client, 4, 20) for client in clients] == [b"%04d" % n for n in range(100)]
    assert world.gateway.status()["open"] == 100
    for client in clients:
        client.close()
    over(world)
    assert world.gateway.shell.statistics()["idle_threads"] > 0


@pytest.mark.parametrize("loss", [0.0, 0.03])
def test_clients_of_all_manners_leave_nothing_behind(worlds: Worlds, loss: float) -> None:
    world = make(worlds)
    world.lose(loss)
    draw = random.Random(5)
    patient: dict[socket.socket, int] = {}
    for number in range(60):
        client = world.connect()
        size = draw.choice([1, 1000, 30_000])
        client.sendall(b"x" * size)
        if number % 4 == 0:
            reset(client)
        elif number % 4 == 1:
            client.close()
        else:
            if number % 4 == 2:
                client.shutdown(socket.SHUT_WR)
            patient[client] = size
        world.during(draw.random() / 50)
    for client, size in patient.items():
        assert world.read(client, size, 10) == b"x" * size
        client.close()
    over(world)
    assert set(world.gateway.counts.ends) <= {"closed", "client: ECONNRESET"}


# -- fail-over -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [0.0, 0.03])
def test_the_primary_dies_and_every_line_is_echoed_once(worlds: Worlds, loss: float) -> None:
    world = make(worlds, replicas=3)
    world.lose(loss)
    client = world.connect()
    lines = b"".join(b"%06d\n" % number for number in range(3000))
    sent, echoed = 0, bytearray()
    kills = [1000, 8000]
    limit = time.monotonic() + 20
    while len(echoed) < len(lines):
        assert time.monotonic() < limit, f"{len(echoed)} of {len(lines)} bytes; log {world.log}"
        with contextlib.suppress(BlockingIOError):
            sent += client.send(lines[sent : sent + 70])
        echoed += take(client, 65_536) or b""
        if kills and len(echoed) > kills[0]:
            kills.pop(0)
            world.kill_primary()
        world.turn()
    assert bytes(echoed) == lines
    assert not kills
    assert world.gateway.counts.ends == {}


def test_a_client_that_comes_between_two_primaries_waits(worlds: Worlds) -> None:
    world = make(worlds)
    world.kill_primary()
    client = world.connect()
    client.sendall(b"hello")
    assert world.read(client, 5) == b"hello"


def test_the_group_is_not_there(worlds: Worlds) -> None:
    world = make(worlds, replicas=0)
    client = world.connect()
    began = time.monotonic()
    read_to_reset(world, client)
    assert time.monotonic() - began < 0.4 + 0.3
    assert any("group not there" in line for line in world.log)
    world.until(lambda: not len(world.gateway.shell.core.messaging.table), "it is forgotten")


def test_the_group_is_gone_for_good(worlds: Worlds) -> None:
    world = make(worlds, replicas=1, idle_connection_bound_ns=300 * MS)
    client = world.connect()
    client.sendall(b"hello")
    assert world.read(client, 5) == b"hello"
    world.kill_primary()
    client.sendall(b"anybody?")
    read_to_reset(world, client)
    assert any("reset" in line for line in world.log)
    world.until(lambda: not world.gateway.relays, "no relay is left")


# -- clients that vanish, are slow, or do not read -------------------------------------------------


def test_a_client_that_resets_is_closed_at_the_server(worlds: Worlds) -> None:
    world = make(worlds)
    client = world.connect()
    client.sendall(b"hello")
    assert world.read(client, 5) == b"hello"
    reset(client)
    over(world)
    assert world.gateway.counts.ends == {"client: ECONNRESET": 1}


def deaf(fd: int, preamble: Inbound) -> Steps:
    """Never reads, so that the window shuts; it waits for a connection that does not come."""
    yield Receive(fd, 1)
    yield Connect(99)
    while True:
        failed = yield Connect(99)
        assert isinstance(failed, Failure)


def test_a_slow_server_stops_the_client_and_a_reset_is_noticed_all_the_same(worlds: Worlds) -> None:
    world = make(worlds, handler=deaf)
    client = world.connect()
    sent, rested = 0, 0
    while rested < 30:
        more = fill(client)
        sent += more
        rested = 0 if more else rested + 1
        world.during(0.01)
    taken = world.gateway.counts.bytes_in
    assert 0 < taken <= world.limits.window_bytes + 2 * world.gateway.read_bytes
    assert taken < sent
    reset(client)
    world.until(lambda: not world.gateway.relays, "the relay is over")
    world.until(lambda: world.gateway.shell.statistics()["threads"] == 2, "its threads have ended")


def test_a_slow_client_stops_the_server(worlds: Worlds) -> None:
    size = 24 << 20

    def pour(fd: int, preamble: Inbound) -> Steps:
        for _ in range(size >> 16):
            yield Send(fd, bytes(65_536))
        yield Close(fd)

    world = make(worlds, handler=pour, replicas=1)
    client = world.connect()
    world.until(lambda: world.gateway.counts.bytes_out > 0, "it flows")
    before = -1
    while before != world.gateway.counts.bytes_out:
        before = world.gateway.counts.bytes_out
        world.during(0.2)
    assert before < size
    (relay,) = world.gateway.relays.values()
    assert relay.stream is not None
    assert relay.stream.unsent_bytes <= UNSENT_BYTES_MAX + 65_536
    assert len(world.read(client, size + 1, 30)) == size


# -- outbound --------------------------------------------------------------------------------------


def connector(port: int, heard: list[object]) -> Any:
    def connect(fd: int, preamble: Inbound) -> Steps:
        """Connects to the outside, and passes one answer on."""
        out = yield Connect(GATEWAY_GROUP)
        yield Send(out, pack(Outbound(Address("127.0.0.1", port))))
        answer = unpack((yield from receive_exactly(out, PREAMBLE_BYTES)))
        heard.append(answer)
        assert isinstance(answer, Answer)
        if not answer.error:
            yield Send(out, b"question")
            yield HalfClose(out)
            data = yield from receive_exactly(out, 6)
            yield Send(fd, data)
        yield Close(out)
        yield Close(fd)

    return connect


def test_a_group_connects_to_the_outside(worlds: Worlds) -> None:
    outside = socket.create_server(("127.0.0.1", 0))
    heard: list[object] = []
    world = make(worlds, handler=connector(outside.getsockname()[1], heard))
    client = world.connect()
    with outside:
        outside.setblocking(False)
        accepted: list[socket.socket] = []

        def accept() -> bool:
            with contextlib.suppress(BlockingIOError):
                accepted.append(outside.accept()[0])
            return bool(accepted)

        world.until(accept, "the gateway connects")
        with accepted[0] as peer:
            peer.setblocking(False)
            assert world.read(peer, 100) == b"question"
            assert heard[0] == Answer(0, Address(*peer.getpeername()))
            peer.sendall(b"answer")
            peer.shutdown(socket.SHUT_WR)
            assert world.read(client, 100) == b"answer"
    client.close()
    over(world)
    assert world.gateway.counts.connected == 1


def test_a_group_is_told_that_nobody_listens(worlds: Worlds) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    heard: list[object] = []
    world = make(worlds, handler=connector(port, heard))
    client = world.connect()
    assert world.read(client, 1) == b""
    client.close()
    assert heard[0] == Answer(errno.ECONNREFUSED)
    over(world)


# -- output commit (D-10) --------------------------------------------------------------------------


def mute_backup(world: World) -> None:
    """Nothing that the backup says is heard: so nobody knows what it holds."""
    backup = next(server.birth_id for server in world.servers if server.core.role == "backup")

    def loses(sender: BirthId, group_id: int, data: bytes) -> bool:
        return sender == backup

    world.hub.loses = loses


@pytest.mark.parametrize("size", [100, 5000])
def test_no_byte_leaves_before_a_backup_holds_its_order(worlds: Worlds, size: int) -> None:
    world = make(worlds, backup_timeout_ns=2000 * MS)
    client = world.connect()
    client.sendall(b"hello")
    assert world.read(client, 5) == b"hello"
    mute_backup(world)
    client.sendall(b"x" * size)
    world.during(0.3)
    assert take(client, 100_000) is None
    connection = next(iter(world.primary.core.messaging.table))
    assert connection.sent, "the primary has answered"
    world.hub.loses = lambda sender, group_id, data: False
    assert world.read(client, size) == b"x" * size


def test_the_end_of_the_stream_is_committed_too(worlds: Worlds) -> None:
    world = make(worlds, backup_timeout_ns=2000 * MS)
    client = world.connect()
    client.sendall(b"hello")
    assert world.read(client, 5) == b"hello"
    mute_backup(world)
    client.shutdown(socket.SHUT_WR)
    world.during(0.3)
    assert take(client, 1) is None
    world.hub.loses = lambda sender, group_id, data: False
    assert world.read(client, 1) == b""


# -- ends that are none ----------------------------------------------------------------------------


def test_a_gateway_that_stops_does_not_make_a_stream_look_complete(worlds: Worlds) -> None:
    """The reply is at the gateway, and no backup is known to hold its order: it is held back (D-10)."""
    world = make(worlds)
    client = world.connect()
    client.sendall(b"one")
    assert world.read(client, 3) == b"one"
    backup = next(server for server in world.servers if server is not world.primary)
    world.hub.loses = lambda sender, group_id, data: backup.birth_id == sender
    client.sendall(b"two")
    world.during(0.05)
    assert take(client, 3) is None
    world.stop_gateway()
    with pytest.raises(ConnectionResetError):
        client.recv(3)


def test_a_gateway_that_stops_leaves_a_stream_that_has_ended_as_it_is(worlds: Worlds) -> None:
    def greet(fd: int, preamble: Inbound) -> Steps:
        yield Send(fd, b"all there is")
        yield Close(fd)

    world = make(worlds, handler=greet)
    client = world.connect()
    world.until(lambda: world.gateway.half_open, "the gateway has seen the end")
    world.stop_gateway()
    assert client.recv(100) == b"all there is"
    assert client.recv(100) == b""


def test_a_client_that_never_closes_is_forgotten(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    def greet(fd: int, preamble: Inbound) -> Steps:
        yield Send(fd, b"bye")
        yield Close(fd)

    monkeypatch.setattr(gateway, "HALF_OPEN_BOUND_NS", 100 * MS)
    world = make(worlds, handler=greet)
    client = world.connect()
    assert world.read(client, 100) == b"bye"
    over(world)
    assert world.gateway.counts.ends == {"left half-open": 1}
    assert not world.gateway.half_open


def test_a_client_that_is_heard_from_time_to_time_is_not_forgotten(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greet_and_listen(fd: int, preamble: Inbound) -> Steps:
        yield HalfClose(fd)
        heard.append((yield from receive_exactly(fd, 20)))
        yield Close(fd)

    monkeypatch.setattr(gateway, "HALF_OPEN_BOUND_NS", 200 * MS)
    heard: list[bytes] = []
    world = make(worlds, handler=greet_and_listen)
    client = world.connect()
    assert world.read(client, 1) == b""
    for _ in range(20):
        client.sendall(b"x")
        world.during(0.05)
    assert set(heard) == {b"x" * 20}
    client.close()
    over(world)
    assert world.gateway.counts.ends == {"closed": 1}
