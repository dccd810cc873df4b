"""What a gateway passes on in C (D-76): that it does, and that core, journal and order log are told of it.
That nothing else is different for anybody is in `test_gateway`, which runs with it as well."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.messaging.order_stream import OrderStream
from llft.instant import MS
from llft.journal.frame import FRAME
from llft.journal.record import Delivered, Operated, Record, Sent, Stamp
from llft.journal.unpack_rows import unpack
from llft.runtime.gateway.relay import UNSENT_BYTES_MAX
from llft.wire.checksum import crc32
from llft.wire.order import OrderContext, OrderDecoder, describe
from tests.live.gateway_world import World, take
from tests.live.relayed_hub import LoopbackHub, compiled_relaying


class Relayed(World):
    """Its gateway writes a journal."""

    def __init__(self, native: Any, **options: Any) -> None:
        self.records: list[Record] = []
        self.native = native
        self.told = native.dialogue_statistics()
        super().__init__(hub=LoopbackHub(), write=self.records.append, write_frame=self._unpack, **options)

    def _unpack(self, frame: bytes, count: int, first: Stamp) -> None:
        found = unpack(frame[FRAME.size :])
        assert len(found) == count
        assert found[0].stamp == first
        self.records += found

    def count(self, what: str) -> int:
        """Since the beginning."""
        found: int = self.native.dialogue_statistics()[what] - self.told[what]
        return found

    def echo(self, client: socket.socket, data: bytes) -> None:
        client.sendall(data)
        assert self.read(client, len(data)) == data


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Any:
    return compiled_relaying(monkeypatch)


@pytest.fixture
def world(native: Any) -> Iterator[Relayed]:
    made = Relayed(native, replicas=3)
    yield made
    made.close()


def talking(world: Relayed) -> socket.socket:
    """A client whose connection has been lent."""
    client = world.connect()
    world.echo(client, b"hello")
    world.until(lambda: world.count("dialogues"), "its connection is lent")
    return client


def test_messages_are_passed_on_without_a_step_for_each(world: Relayed) -> None:
    client = talking(world)
    for number in range(100):
        world.echo(client, b"%d" % number * 300)
    assert world.count("said") > 20
    assert world.count("heard") > 10


def test_bytes_are_counted_whoever_passes_them_on(world: Relayed) -> None:
    client = talking(world)
    for _ in range(20):
        world.echo(client, b"x" * 1000)
    status = world.gateway.status()
    assert status["bytes_in"] == status["bytes_out"] == 20_005
    assert status["relaying"]["said"]


def test_the_journal_has_what_was_passed_on_in_order_and_without_a_gap(world: Relayed) -> None:
    clients = [talking(world) for _ in range(3)]
    streams = [b"hello"] * 3
    for number in range(40):
        for at, client in enumerate(clients):
            data = b"%d of %d," % (number, at) * (1 + number)
            world.echo(client, data)
            streams[at] += data
    numbers = [record.order_seq_num for record in world.records if isinstance(record, Operated)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == world.gateway.shell.core.performed_count
    ends: dict[str, tuple[int, int]] = {}
    for record in world.records:
        if isinstance(record, Delivered):
            ends[str(record.connection)] = (record.stream_offset, record.digest)
    assert sorted(ends.values()) == sorted((len(stream), crc32(stream)) for stream in streams)
    positions: dict[str, list[int]] = {}
    for record in world.records:
        if isinstance(record, Sent):
            positions.setdefault(str(record.connection), []).append(record.position)
    assert all(found == list(range(1, len(found) + 1)) for found in positions.values())


def test_the_order_log_has_what_the_journal_has(native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    appended: list[tuple[OrderStream, bytes]] = []
    append = OrderStream.append

    def keep(stream: OrderStream, chunk: bytes) -> None:
        append(stream, chunk)
        appended.append((stream, bytes(chunk)))

    monkeypatch.setattr(OrderStream, "append", keep)
    world = Relayed(native, replicas=2)
    try:
        client = talking(world)
        for number in range(60):
            world.echo(client, b"x" * number * 20 + b"x")
        assert world.count("said") > 10
        lane = world.gateway.shell.core.messaging.lane
        lane.flush()
        decoder, entries = OrderDecoder(OrderContext()), []
        decoder.feed(b"".join([chunk for stream, chunk in appended if stream is lane.orders]))
        while (entry := decoder.next()) is not None:
            entries.append(describe(entry))
        assert decoder.end == lane.orders.end
        assert entries == [record.entry for record in world.records if isinstance(record, Operated)]
    finally:
        world.close()


def test_records_are_stamped_in_the_order_of_time(world: Relayed) -> None:
    client = talking(world)
    for _ in range(40):
        world.echo(client, b"x" * 100)
    times = [record.stamp.time_ns for record in world.records]
    assert times == sorted(times)


def test_much_at_once_is_passed_on_whole(world: Relayed) -> None:
    client = talking(world)
    data = bytes(range(256)) * 4096
    sent = 0

    def exchanged() -> bool:
        nonlocal sent, heard
        with contextlib.suppress(BlockingIOError):
            sent += client.send(data[sent : sent + 65_536]) if sent < len(data) else 0
        heard += take(client, 1 << 20) or b""
        return len(heard) == len(data)

    heard = b""
    world.until(exchanged, "all of it is echoed", 20)
    assert heard == data


def test_what_a_client_does_not_take_is_kept_in_order(world: Relayed) -> None:
    """It reads nothing until more is on its way than the kernel and the gateway take."""
    client = talking(world)
    data = bytes(range(256)) * 16
    sent = 0

    def is_stopped() -> bool:
        nonlocal sent
        try:
            sent += client.send(data[sent % len(data) :])
        except BlockingIOError:
            streams = [relay.stream for relay in world.gateway.relays.values()]
            return any(stream.unsent_bytes > UNSENT_BYTES_MAX // 2 for stream in streams if stream)
        return False

    world.until(is_stopped, "the gateway cannot write on", 30)
    heard = world.read(client, sent, 30)
    assert heard == (data * (sent // len(data) + 1))[:sent]


def test_a_client_that_is_quiet_is_not_lent(world: Relayed, monkeypatch: pytest.MonkeyPatch) -> None:
    client = talking(world)
    world.during(0.7)
    lent = world.count("dialogues")
    world.during(0.2)
    assert world.count("dialogues") == lent
    world.echo(client, b"again")
    world.until(lambda: world.count("dialogues") > lent, "it is lent again")


def test_the_end_and_a_reset_of_a_client_that_talks_are_seen(world: Relayed) -> None:
    ending, breaking = talking(world), talking(world)
    world.echo(breaking, b"x")
    world.echo(ending, b"y")
    ending.shutdown(socket.SHUT_WR)
    breaking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    breaking.close()
    assert world.read(ending, 1) == b""
    world.until(lambda: not world.gateway.relays, "both are over")


def test_nothing_is_heard_before_a_backup_holds_it(native: Any) -> None:
    """Of a dialogue that hears the reply, and no word of a backup."""
    world = Relayed(native, replicas=2, backup_timeout_ns=2000 * MS)
    try:
        client = talking(world)
        backup = next(server.birth_id for server in world.servers if server is not world.primary)
        for _ in range(10):
            world.echo(client, b"x" * 500)
        world.hub.loses = lambda sender, group_id, data: sender == backup
        heard, connection = world.count("heard"), next(iter(world.primary.core.messaging.table))
        generated = connection.generated
        client.sendall(b"y" * 500)
        world.until(lambda: connection.generated > generated, "it has replied")
        world.during(0.1)
        assert take(client, 1000) is None
        assert world.count("heard") == heard
        world.hub.loses = lambda sender, group_id, data: False
        assert world.read(client, 500) == b"y" * 500
    finally:
        world.close()


def test_a_commit_that_does_not_come_soon_is_not_looked_for_all_the_time(native: Any) -> None:
    world = Relayed(native, replicas=2, backup_timeout_ns=2000 * MS)
    try:
        client = talking(world)
        backup = next(server.birth_id for server in world.servers if server is not world.primary)
        for _ in range(10):
            world.echo(client, b"x" * 500)
        world.hub.loses = lambda sender, group_id, data: sender == backup
        client.sendall(b"y" * 500)
        world.during(0.05)
        sought = world.count("sought")
        world.during(0.1)
        assert world.count("sought") - sought <= 4 + world.count("deadlines") // 64
        world.hub.loses = lambda sender, group_id, data: False
        assert world.read(client, 500) == b"y" * 500
        world.echo(client, b"and on")
    finally:
        world.close()
