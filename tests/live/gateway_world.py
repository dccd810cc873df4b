"""A gateway with real TCP sockets, and a server group in the same process, connected by a hub of datagrams.

Everything happens in one thread, a turn at a time, so a test decides when a datagram is lost and when a
replica dies. The server's program is a generator for each of its threads. Its checkpoint is what its threads
were sent since birth: a joiner sends it to its own generators.
"""

from __future__ import annotations

import os
import pickle
import random
import socket
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from llft.config import GroupConfig, Limits, ThreadMode, Timeouts
from llft.core import events
from llft.core.determinizer.operations import Accept, Close, Failure, Receive, Send, Spawn
from llft.core.replica import Replica
from llft.identifiers import BirthId, GroupId
from llft.instant import MS
from llft.journal.record import Record
from llft.runtime.gateway.gateway import Gateway
from llft.runtime.gateway.relaying import WriteFrame
from llft.runtime.gateway.shell import Carrier, Shell, Steps
from llft.runtime.settings import Settings
from llft.runtime.transport import open_transport
from llft.wire.preamble import PREAMBLE_BYTES, Inbound, unpack

SERVER_GROUP = 7
GATEWAY_GROUP = 0x8000_0001
TIMEOUTS = Timeouts(primary_timeout_ns=60 * MS, backup_timeout_ns=150 * MS, connect_bound_ns=400 * MS)

Handler = Callable[[int, "Inbound"], Steps]


class Hub:
    """Datagrams, by group. `loses(sender, group id, data)` says which are lost."""

    def __init__(self) -> None:
        self.ports: list[Port] = []
        self.loses: Callable[[BirthId, GroupId, bytes], bool] = lambda sender, group_id, data: False

    def connect(self, group_id: GroupId, birth_id: BirthId) -> Port:
        port = Port(self, group_id, birth_id)
        self.ports.append(port)
        return port


class Port:
    """One process's transport."""

    def __init__(self, hub: Hub, group_id: GroupId, birth_id: BirthId) -> None:
        self.hub = hub
        self.group_id = group_id
        self.birth_id = birth_id
        self.inbox: deque[bytes] = deque()
        self.event = os.eventfd(0, os.EFD_NONBLOCK)

    def multicast(self, group_id: GroupId, data: bytes, /) -> None:
        for port in self.hub.ports:
            if port.group_id == group_id and port is not self:
                self._send(port, data)

    def transmit(self, birth_id: BirthId, data: bytes, /) -> None:
        for port in self.hub.ports:
            if port.birth_id == birth_id:
                self._send(port, data)

    def _send(self, port: Port, data: bytes) -> None:
        if not self.hub.loses(self.birth_id, port.group_id, data):
            port.inbox.append(data)
            os.eventfd_write(port.event, 1)

    def receive(self) -> list[bytes]:
        if self.inbox:
            os.eventfd_read(self.event)
        batch = list(self.inbox)
        self.inbox.clear()
        return batch

    def filenos(self) -> tuple[int, ...]:
        return (self.event,)

    def close(self) -> None:
        self.hub.ports.remove(self)
        os.close(self.event)


class Server(Shell):
    """A replica of the server group: a program of generators under the token."""

    def __init__(self, config: GroupConfig, birth_id: BirthId, carrier: Carrier, handler: Handler) -> None:
        assert config.threads is ThreadMode.TOKEN
        core = Replica(config, birth_id, local_clock=time.clock_gettime_ns, random=random.Random(1))
        self.records: list[Record] = []
        super().__init__(core, carrier, main=self._accept, write=self.records.append)
        self.birth_id = birth_id
        self.history: list[tuple[str, int, Any]] = []
        self._handler = handler

    def turn(self) -> None:
        self.receive()
        self.run()
        self.serve_deadline()
        self.run()

    def _accept(self) -> Steps:
        while True:
            accepted = yield Accept()
            yield Spawn(accepted[0])

    def _serve(self, fd: int) -> Steps:
        head = yield Receive(fd, PREAMBLE_BYTES)
        if isinstance(head, Failure) or not head:  # the client was gone before the gateway had spoken
            yield Close(fd)
            return
        rest = yield from receive_exactly(fd, PREAMBLE_BYTES - len(head))
        preamble = unpack(head + rest)
        assert isinstance(preamble, Inbound)
        yield from self._handler(fd, preamble)

    def start_thread(self, thread: int, steps: object) -> None:
        """`steps` is the fd that a spawned thread serves."""
        argument = None if isinstance(steps, Generator) else steps
        self.history.append(("start", thread, argument))
        super().start_thread(thread, self._remembered(thread, self._steps(thread, argument)))

    def _steps(self, thread: int, argument: Any) -> Steps:
        return self._accept() if thread == 1 else self._serve(argument)

    def _remembered(self, thread: int, steps: Steps) -> Steps:
        value = None
        while True:
            self.history.append(("sent", thread, value))
            try:
                wanted = steps.send(value)
            except StopIteration:
                return
            value = yield wanted

    def thread_ended(self, thread: int) -> None:
        self.step(events.ThreadEnded(thread))

    def capture(self) -> None:
        self.step(events.StateCaptured(pickle.dumps((self.history, list(self.runs)))))

    def restore(self, state: bytes) -> None:
        history, runs = pickle.loads(state)
        assert not self.history
        live: dict[int, Steps] = {}
        for what, thread, value in history:
            if what == "start":
                self.history.append((what, thread, value))
                live[thread] = self._remembered(thread, self._steps(thread, value))
            else:
                try:
                    live[thread].send(value)
                except StopIteration:
                    del live[thread]
        for thread, steps in live.items():
            self.adopt(thread, steps)
        self.runs.extend(runs)
        self.step(events.StateStored(held=True))  # the whole past came with the state (D-70)


def receive_exactly(fd: int, size: int) -> Generator[Receive, Any, bytes]:
    data = b""
    while len(data) < size:
        part = yield Receive(fd, size - len(data))
        assert not isinstance(part, Failure), part
        assert part, "the stream ended early"
        data += part
    return data


def echo(fd: int, preamble: Inbound) -> Steps:
    """Writes back what it reads, until the end."""
    while True:
        data = yield Receive(fd, 65_536)
        if isinstance(data, Failure) or not data:
            break
        sent = yield Send(fd, data)
        if isinstance(sent, Failure):
            break
    yield Close(fd)


class Turning:
    """Something that goes on a turn at a time, and what may be waited for meanwhile."""

    log: list[str]

    def turn(self) -> None:
        raise NotImplementedError

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 5.0) -> None:
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, f"{seconds} s have passed without: {what}; log {self.log}"
            self.turn()

    def during(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.turn()

    def read(self, client: socket.socket, size: int, seconds: float = 5.0) -> bytes:
        """So many bytes, or fewer if the stream ends."""
        data = bytearray()
        ended = False

        def complete() -> bool:
            nonlocal ended
            part = take(client, size - len(data))
            if part is not None:
                data.extend(part)
                ended = not part
            return ended or len(data) == size

        self.until(complete, f"{size} bytes", seconds)
        return bytes(data)


class RealServer(Turning):
    """A server group of one replica, on the transport of the settings."""

    def __init__(self, settings: Settings, handler: Handler = echo) -> None:
        birth_id = BirthId(settings.host_id(), os.getpid(), time.time_ns())
        self.log = []
        self.transport = open_transport(settings, SERVER_GROUP, birth_id)
        config = settings.group_config("bank", datagram_bytes=self.transport.payload_limit)
        self.server = Server(replace(config, group_id=SERVER_GROUP), birth_id, self.transport, handler)
        self.server.step(events.Started(alone=True))

    def turn(self) -> None:
        self.server.turn()
        time.sleep(0.0005)

    def close(self) -> None:
        self.transport.close()


class World(Turning):
    def __init__(
        self,
        *,
        replicas: int = 2,
        handler: Handler = echo,
        level: int = 1,
        hub: Hub | None = None,
        write: Callable[[Record], None] | None = None,
        write_frame: WriteFrame | None = None,
        **changed: int,
    ) -> None:
        self.timeouts = replace(TIMEOUTS, **changed)
        self.limits = Limits(datagram_bytes=1400)
        self.hub = hub or Hub()
        self.servers: list[Server] = []
        self.ports: dict[BirthId, Port] = {}
        self.log: list[str] = []
        self.clients: list[socket.socket] = []
        self._handler = handler
        self._level = level
        self._births = 0
        self.gateway_stopped = False
        gateway_birth = self.new_birth()
        self.gateway_port = self.hub.connect(GATEWAY_GROUP, gateway_birth)
        self.gateway = Gateway(
            GATEWAY_GROUP,
            gateway_birth,
            server_group_id=SERVER_GROUP,
            carrier=self.gateway_port,
            random=random.Random(1),
            timeouts=self.timeouts,
            limits=self.limits,
            write=write,
            write_frame=write_frame,
            log=self.log.append,
        )
        self.address = self.gateway.listeners.listen("127.0.0.1", 0)
        for _ in range(replicas):
            self.add_replica()

    def new_birth(self) -> BirthId:
        self._births += 1
        return BirthId(1, self._births, time.monotonic_ns())

    def add_replica(self) -> Server:
        birth_id = self.new_birth()
        config = GroupConfig(
            SERVER_GROUP, output_commit_level=self._level, timeouts=self.timeouts, limits=self.limits
        )
        port = self.hub.connect(SERVER_GROUP, birth_id)
        server = Server(config, birth_id, port, self._handler)
        self.ports[birth_id] = port
        server.step(events.Started(alone=not self.servers))
        self.servers.append(server)
        self.until(lambda: server.core.has_state, "the replica is a member")
        return server

    @property
    def primary(self) -> Server:
        return next(server for server in self.servers if server.core.role == "primary")

    def kill_primary(self) -> None:
        """Its last datagrams are under way; its peers get the certificate."""
        dead = self.primary
        self.servers.remove(dead)
        self.ports[dead.birth_id].close()
        for server in self.servers:
            server.step(events.PeerDied(dead.birth_id))

    def lose(self, share: float) -> None:
        """So many of all datagrams."""
        draw = random.Random(1)
        self.hub.loses = lambda sender, group_id, data: draw.random() < share

    def turn(self) -> None:
        self.gateway.turn(MS)
        for server in self.servers:
            server.turn()

    # -- outside clients ---------------------------------------------------------------------

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.address)
        client.setblocking(False)
        self.clients.append(client)
        return client

    def stop_gateway(self) -> None:
        """As its process does at its end; clients then wait for themselves."""
        self.gateway_stopped = True
        self.gateway.close()
        for client in self.clients:
            client.settimeout(5)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if not self.gateway_stopped:
            self.gateway.close()
        for server in self.servers:
            self.ports[server.birth_id].close()
        self.gateway_port.close()


def take(client: socket.socket, limit: int) -> bytes | None:
    """What is there; None: nothing yet."""
    try:
        return client.recv(min(limit, 1 << 20))
    except BlockingIOError:
        return None
