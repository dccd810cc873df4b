"""A small world for dialogues (D-74): clients, and a server of two members whose program has one thread.

Cores and time are real, and so are the sockets that C hears and sends on; the rest of the network is lists. A
member makes its program's calls through its core alone, or in dialogues; what happened to it, and when, is
kept (`Server.happened`), so that another world can be made in which the same happens.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable
from threading import get_ident
from types import SimpleNamespace
from typing import Any, NoReturn

from llft.config import GroupConfig, Limits, Timeouts
from llft.core import effects, events
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Accept,
    Connect,
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Select,
    Send,
)
from llft.core.determinizer.outside import BLOCKED
from llft.core.messaging.connection import Connection
from llft.core.messaging.kept import next_key
from llft.core.messaging.order_stream import OrderStream
from llft.core.replica import Replica
from llft.identifiers import BirthId
from llft.instant import MS
from llft.journal.frame import FRAME
from llft.journal.record import Record, Stamp
from llft.journal.unpack_rows import unpack
from llft.past.birth_log import OPERATION_KINDS, BirthLog
from llft.past.witness import Witness
from llft.runtime import dialogues
from llft.runtime.transport.envelope import (
    BIRTH,
    DATAGRAM_PURPOSE,
    ENVELOPE_BYTES,
    Channel,
    Opener,
    Sealer,
)
from llft.runtime.transport.keys import KeyRing
from llft.runtime.transport.replay import ReplayWindow
from llft.runtime.transport.sockets import be_patient
from llft.wire.codec import decode, decode_body
from llft.wire.messages import Message, MessageFlag, MessageType

CLIENTS, SERVERS, OTHERS = 1, 2, 3
CLIENT, PRIMARY, BACKUP = BirthId(1, 10, 100), BirthId(1, 20, 200), BirthId(1, 30, 300)
OTHER, THIRD = BirthId(1, 40, 400), BirthId(1, 50, 500)
SECOND = 1000 * MS
PATIENT = Timeouts(
    heartbeat_interval_ns=1000 * SECOND,
    primary_timeout_ns=9000 * SECOND,
    backup_timeout_ns=9000 * SECOND,
    retransmit_interval_ns=1000 * SECOND,
    first_ack_delay_ns=1000 * SECOND,
    first_ack_patience_ns=1000 * SECOND,
    nack_interval_ns=1000 * SECOND,
    keep_alive_interval_ns=1000 * SECOND,
    idle_connection_bound_ns=90_000 * SECOND,
)
"""Nothing is done here for the time that has passed."""
LARGEST = 61_440
UDP_SEGMENT, UDP_GRO = 103, 104
TOGETHER = 4


class Orders(OrderStream):
    """Nothing is discarded for those who look at it afterwards."""

    __slots__ = ("whole",)

    def append(self, chunk: bytes) -> None:
        self.whole += chunk
        super().append(chunk)


class Drawn:
    def __init__(self) -> None:
        self.again: deque[bytes] = deque()
        """Of another world, to be drawn again."""

    def randbytes(self, n: int, /) -> bytes:
        return self.again.popleft() if self.again else bytes(n)


class Member:
    """A core, and what its shell does for it. `out`: its thread runs, and has `result`."""

    def __init__(self, world: World, group_id: int, birth_id: BirthId, limits: Limits) -> None:
        self.world, self.birth_id, self.group_id = world, birth_id, group_id
        self.drawn = Drawn()
        self.core = Replica(
            GroupConfig(
                group_id,
                timeouts=PATIENT,
                limits=limits,
                output_commit_level=world.level if group_id == SERVERS else 0,
                outside=world.level > 0 and group_id != SERVERS,
            ),
            birth_id,
            local_clock=self._read_clock,
            random=self.drawn,
        )
        self.readings: deque[int] = deque()
        """Of another world, to be made again."""
        self.heard: deque[bytes] = deque()
        """On its way to this member."""
        self.out, self.result = False, None
        self.operation: Operation | None = None
        self.log = BirthLog()
        self.records: list[Record] = []
        lane = self.core.messaging.lane
        lane.orders = self.orders = Orders(early_limit_bytes=lane.orders.early_limit_bytes)
        self.orders.whole = bytearray()
        self.resets: list[object] = []

    def _read_clock(self, clock_id: int) -> int:
        return self.readings.popleft() if self.readings else time.clock_gettime_ns(clock_id)

    def step(self, event: events.Event) -> None:
        self.perform(self.core.step(event, time.monotonic_ns()))

    def perform(self, todo: list[effects.Effect]) -> None:
        encoder = self.core.messaging.lane.encoder
        if encoder is not None:
            encoder.seal()  # as dialogues do, which merge nothing
        for effect in todo:
            if isinstance(effect, effects.Multicast):
                self.world.multicast(self, effect.group_id, effect.data)
            elif isinstance(effect, effects.Transmit):
                self.world.members[effect.birth_id].heard.append(effect.data)
            elif isinstance(effect, effects.ResumeThread):
                assert not self.out
                assert self.operation is not None
                self.log.completed(1, OPERATION_KINDS[type(self.operation)], effect.result)
                self.out, self.result = True, effect.result
            elif isinstance(effect, effects.StartApplication):
                self.out = True
                self.log.started(1, "")
            elif isinstance(effect, effects.CaptureState):
                self.step(events.StateCaptured(b""))
            elif isinstance(effect, effects.RestoreState):
                self.log.go_on(self.world.primary.log.kept())
                self.orders.whole[:0] = self.world.primary.orders.whole[: self.orders.start]
                self.out = self.core.determinizer.engine.is_out(1)
                self.step(events.StateStored(held=True))
            elif isinstance(effect, effects.WriteRecord):
                self.records.append(effect.record)
            elif isinstance(effect, effects.WriteBatch):
                self.records += effect.records()
            else:
                self.resets.append(effect)

    def hear(self) -> None:
        """All that is on its way."""
        while self.heard:
            self.step(events.MessageReceived(self.heard.popleft()))

    def beat(self) -> None:
        """The others are told how far it is."""
        self.core.intra.on_heartbeat_timer()
        self.perform(self.core.drain())

    def call(self, operation: Operation) -> bool:
        """False: it waits."""
        assert self.out
        self.operation = operation
        result = self.core.at_once(1, operation, time.monotonic_ns())
        if result is not BLOCKED:
            self.log.completed(1, OPERATION_KINDS[type(operation)], result)
            self.result = result
            self.perform(self.core.drain())
            return True
        self.out = False
        self.step(events.OperationInvoked(1, operation))
        return self.out

    def connection(self, fd: int = 1) -> Connection:
        return self.core.messaging.table.by_fd[fd]


class World:
    """`connections`: how many each client has to the server. A server's descriptors are those of the first
    client, then those of the other one, if there is one."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        connections: int = 1,
        clients: int = 1,
        level: int = 0,
        has_third: bool = False,
    ) -> None:
        """With a `level` clients are gateways, which wait for the output commit."""
        limits, self.level = limits or Limits(), level
        self.members: dict[BirthId, Member] = {}
        self.clients = [
            Member(self, group_id, birth_id, limits)
            for group_id, birth_id in ((CLIENTS, CLIENT), (OTHERS, OTHER))[:clients]
        ]
        self.client = self.clients[0]
        self.primary, self.backup = (Server(self, SERVERS, birth, limits) for birth in (PRIMARY, BACKUP))
        self.third = Server(self, SERVERS, THIRD, limits) if has_third else None
        for member in (*self.clients, *self.servers):
            self.members[member.birth_id] = member
        self.ends: dict[int, tuple[Member, int]] = {}
        """By a server's descriptor: who is at the other end, and its descriptor there."""
        self._begin(connections)

    @property
    def servers(self) -> list[Server]:
        """The third one's program does nothing, but it counts."""
        return [self.primary, self.backup, *([self.third] if self.third is not None else [])]

    @property
    def fds(self) -> tuple[int, ...]:
        return tuple(self.ends)

    def multicast(self, sender: Member, group_id: int, data: bytes) -> None:
        for member in self.members.values():
            if member.group_id == group_id and member is not sender:
                member.heard.append(data)

    def hear(self) -> None:
        """Until nothing is on its way."""
        while any(member.heard for member in self.members.values()):
            for member in self.members.values():
                member.hear()

    def fd_of(self, data: bytes) -> int:
        """The server's descriptor that a client's datagram is for; -1: it is another member's."""
        header = decode(data).header
        for fd, (client, number) in self.ends.items():
            if client.group_id == header.source_group_id and number == header.conn_seq_num:
                return fd
        return -1

    def _begin(self, connections: int) -> None:
        for member in (*self.clients, self.primary):
            member.step(events.Started(alone=True))
        for backup in self.servers[1:]:
            backup.step(events.Started(may_found=False))
            self.hear()
        self.primary.core.asking.telling_ns = 0
        for client in self.clients:
            for number in range(1, connections + 1):
                self._connect(client, number)
        for fd in self.fds:
            for text in (b"hello", b"how are you?"):
                self._greet(fd, text)
        for member in (*self.clients, *self.servers):  # none is due while somebody looks
            member.core.intra.heartbeat_ns = time.monotonic_ns() + 1000 * SECOND

    def _connect(self, client: Member, number: int) -> None:
        for server in (self.primary, self.backup):
            assert server.out
            assert not server.call(Accept())
        assert not client.call(Connect(SERVERS))
        self.hear()
        self.tell()
        fd = len(self.ends) + 1
        self.ends[fd] = client, number
        for server in (self.primary, self.backup):
            assert server.result == (fd, client.group_id)
            server.call(Send(fd, b"welcome"))
            self.tell()
        assert client.result == number
        assert client.call(Receive(number, 100))

    def tell(self) -> None:
        """The primary its backup what was recorded."""
        orders = self.primary.core.messaging.lane.orders
        self.hear()
        self.primary.core.messaging.lane.flush()
        self.primary.core.intra.send_order(orders.start, orders.end)
        self.primary.perform(self.primary.core.drain())
        self.hear()
        self.backup.beat()
        self.hear()

    def _greet(self, fd: int, text: bytes) -> None:
        """Each has heard the other: the lane knows them. And each kind of call was made once."""
        client, number = self.ends[fd]
        assert client.call(Send(number, text))
        self.hear()
        selected = Select((fd,), -1, (), interruptible=True)
        calls = (selected, Receive(fd, 100), Receive(fd, 100, blocking=False), RandomBytes(2), Send(fd, text))
        for operation in calls if len(self.ends) > 1 else (Receive(fd, 100), Send(fd, text)):
            for server in (self.primary, self.backup):
                server.call(operation)
                self.tell()
                assert server.out
        assert client.call(Receive(number, 100))
        assert client.result == text

    def close(self) -> None:
        for server in self.servers:
            server.close()


class Server(Member):
    """One whose thread makes its calls in dialogues if `talks`: their shell (`runtime.dialogues`)."""

    def __init__(self, world: World, group_id: int, birth_id: BirthId, limits: Limits) -> None:
        super().__init__(world, group_id, birth_id, limits)
        self.talks = False
        self.lasts_ns = 50 * MS
        self.repeats = False
        """What has `happened` in another world."""
        self.happened: deque[tuple[str, int]] = deque()
        """To its thread when it was about to wait: so many datagrams woke it, or came while it was out."""
        self.made = 0
        """Calls in dialogues."""
        self.called_count = self.came = 0
        self.is_calling = False
        self.handed: list[Operation] = []
        self.thread: Any = None
        self.line = Line(birth_id, min(limits.datagram_bytes + ENVELOPE_BYTES, LARGEST))
        self.seen_to: list[bytes] = []
        """What was taken, and is looked at before a dialogue is lent."""
        self._application = SimpleNamespace(
            replaying=False, witness=None, pump=None, out_count=1, log=self.log, threads={}, out_for_core={}
        )
        self.shell = self._shell()
        self.dialogues = dialogues.Dialogues(self.shell)
        self.dialogues.line = self.line
        self._coming: Counter[tuple[int, int]] = Counter()
        """Bytes that have come of a message, by descriptors and numbers."""
        self._unread: Counter[int] = Counter()
        """Bytes that the dialogue has, by descriptors."""

    def _shell(self) -> Any:
        """Of the driver, what dialogues need."""
        arrivals = SimpleNamespace(
            waiting=(),
            look_at_waiting=self.seen_to.clear,
            put=lambda taken: self.heard.extendleft(reversed(taken)),
        )
        return SimpleNamespace(
            core=self.core,
            application=self._application,
            calling=SimpleNamespace(invoke_for=lambda thread, operation: self.handed.append(operation)),
            spinning=SimpleNamespace(limit_ns=0),
            polled_until_ns=0,
            poller=self.line,
            arrivals=arrivals,
            is_pump_held=lambda: False,
            flush=lambda: None,
            perform=self.perform,
            die=_die,
            world=SimpleNamespace(write_frame=self._take_frame),
        )

    def _take_frame(self, frame: bytes, count: int, first: Stamp) -> None:
        length, checksum = FRAME.unpack_from(frame)
        payload = frame[FRAME.size :]
        assert (length, checksum) == (len(payload), zlib.crc32(payload))
        records = unpack(payload)
        assert len(records) == count
        assert records[0].stamp == first
        self.records += records

    def close(self) -> None:
        self.take_back()
        self.line.close()

    # -- dialogues -----------------------------------------------------------------------------------

    @property
    def witness(self) -> Witness | None:
        found: Witness | None = self._application.witness
        return found

    @witness.setter
    def witness(self, witness: Witness) -> None:
        self._application.witness = witness

    @property
    def is_talking(self) -> bool:
        return self.talks and bool(dialogues.native.is_talking())

    def lend(self, operation: Operation | None = None, ident: int = 0) -> bool:
        core, timers = self.core, self.core.timers
        usual, while_beating = core.next_deadline, timers.deadline_while_beating
        core.next_deadline = lambda: time.monotonic_ns() + self.lasts_ns
        timers.deadline_while_beating = lambda busy, patience_ns: time.monotonic_ns() + self.lasts_ns
        self.thread = SimpleNamespace(ident=ident or get_ident(), number=1, out_since_ns=0)
        lent = self.dialogues.lend(self.thread, operation or Receive(1, 100))
        core.next_deadline, timers.deadline_while_beating = usual, while_beating
        self.dialogues._skipping = self.line.taken_count = 0
        connections = {fd: self.connection(fd) for fd in self.world.fds}
        self._unread = Counter({fd: c.received_bytes - c.delivered_bytes for fd, c in connections.items()})
        self._coming = Counter({_next_of(fd, c): self._has_begun(c) for fd, c in connections.items()})
        return lent

    def take_back(self) -> int:
        """How many datagrams are to be looked at: they are not of the dialogue."""
        if not self.is_talking:
            return 0
        before = len(self.heard)
        self._speak()
        self.dialogues.take_back()
        foreign = len(self.heard) - before
        left = self.line.rest()
        for data in reversed(left):
            self.heard.insert(foreign, data)
        return foreign

    def feed(self, count: int) -> None:
        fed = [self.heard.popleft() for _ in range(count)]
        for data in fed:
            message, is_last = _numbered(decode(data), self.world.fd_of(data))
            if not decode(data).header.fragment_index:
                self._coming[message] = 0
            self._coming[message] += len(decode(data).payload)
            self._unread[message[0]] += self._coming[message] if is_last else 0
        self.line.put_all(fed)

    def _has_begun(self, connection: Connection) -> int:
        begun = self.core.messaging.reassembly.begun(next_key(connection))
        return sum([len(part) for part in begun[1]]) if begun is not None else 0

    def _take_out(self) -> int:
        """What a call has left in the socket is on its way again: how many."""
        left = self.line.rest()
        for data in reversed(left):
            message, is_last = _numbered(decode(data), self.world.fd_of(data))
            self._unread[message[0]] -= self._coming[message] if is_last else 0
            self._coming[message] -= len(decode(data).payload)
        self.heard.extendleft(reversed(left))
        return len(left)

    def _speak(self) -> None:
        for group_id, data in self.line.said():
            if group_id == self.group_id and _envelope(data)[1] == Channel.TO_PROCESS:
                self.world.members[PRIMARY if self.birth_id != PRIMARY else BACKUP].heard.append(data)
            else:
                self.world.multicast(self, group_id, data)

    def talk(self, operation: Operation) -> bool:
        """False: it goes the usual way."""
        native = dialogues.native
        value: Any
        if isinstance(operation, Receive):
            if operation.blocking:
                value = native.receive(operation.fd, operation.limit, True)
            else:
                value = native.look(operation.fd, operation.limit)
            value = WOULD_BLOCK if value is True else value
        elif isinstance(operation, Send):
            value = len(operation.payload) if native.send(operation.fd, operation.payload, True) else None
        elif isinstance(operation, Select):
            value = native.select(*operation, True)
            value = None if isinstance(value, int) else value
        elif isinstance(operation, RandomBytes):
            value = native.function("urandom", lambda size: None)(operation.size)
        else:
            assert isinstance(operation, ReadClock)
            value = native.reading(operation.clock_id)
        self._speak()
        if value is not None:
            self.made += 1
            self.result = value
        return value is not None

    # -- the calls of its thread ---------------------------------------------------------------------

    def say(self, operation: Operation) -> bool:
        """What does not wait at a primary, and at a backup maybe. False: it waits."""
        if self.is_talking:
            if self.talk(operation):
                return True
            self.take_back()
        return self.call(operation)

    def receive(self, operation: Receive | Select, came: Callable[[], int]) -> None:
        """At a primary. `came`: how many of the datagrams that are on their way have come, if it waits."""
        receive = self._receive_again if self.repeats else self._receive
        while not receive(operation, came):
            pass

    def _receive(self, operation: Receive | Select, came: Callable[[], int]) -> bool:
        if not self.is_talking:
            if not self.talks or not self.lend(operation):
                if self.has_unread(operation):
                    return self.call(operation)
                self._be_woken(operation, came)
                return True
        fed = 0
        if not any(self._unread[fd] for fd in fds_of(operation)):
            fed = self._noted(came)
            self.feed(fed)
        meanwhile = dialogues.native.dialogue_statistics()["meanwhile"]
        if self.talk(operation):
            if isinstance(operation, Receive):
                self._unread[operation.fd] -= len(self.result)
            if fed:
                fed -= self._take_out()
                came_before = dialogues.native.dialogue_statistics()["meanwhile"] > meanwhile
                self.happened.append(("outside" if came_before else "woken", fed))
                self.line.taken_count -= fed
            return True
        foreign = self.take_back()
        looked_at = self.line.taken_count + foreign
        for _ in range(foreign):
            self.step(events.MessageReceived(self.heard.popleft()))
        if looked_at:
            self.happened.append(("outside", looked_at))
        return False

    def follow(self, calls: list[Operation], came: int) -> None:
        """At a backup: its thread makes these calls as far as it can, and so many datagrams come."""
        self.came = min(came, len(self.heard))
        while True:
            if self.out and self.is_calling:
                self.is_calling = False
                self.called_count += 1
            if self.out and self.called_count < len(calls):
                if self._follow_talking(calls[self.called_count]):
                    self.called_count += 1
                else:
                    self.is_calling = True
                    self.call(calls[self.called_count])
            elif self.came:
                self._hear_one()
            else:
                return

    def _hear_one(self) -> None:
        self.take_back()
        self.came -= 1
        self.step(events.MessageReceived(self.heard.popleft()))

    def _follow_talking(self, operation: Operation) -> bool:
        if not self.is_talking:
            if not (self.talks and isinstance(operation, Receive | Select) and self.lend(operation)):
                return False
        self.feed(self.came)
        if self.talk(operation):
            self.came = 0
            return True
        before = len(self.heard)
        foreign = self.take_back()
        self.came = len(self.heard) - before
        for _ in range(foreign):
            self._hear_one()
        return False

    def has_unread(self, operation: Receive | Select) -> bool:
        connections = [self.connection(fd) for fd in fds_of(operation) if fd]
        return any(each.received_bytes > each.delivered_bytes for each in connections)

    def _be_woken(self, operation: Operation, came: Callable[[], int]) -> None:
        assert not self.call(operation)
        while not self.out:
            count = self._noted(came)
            self.happened.append(("woken", count))
            self._wake(count)

    def _noted(self, came: Callable[[], int]) -> int:
        count = came()
        self.happened.append(("came", count))
        return count

    def _wake(self, count: int) -> None:
        """By all of them at once, as in a dialogue."""
        self.core.now_ns = self.core.outbox.now_ns = time.monotonic_ns()
        for _ in range(count - 1):
            self.core.inbox.on_datagram(self.heard.popleft())
        self.step(events.MessageReceived(self.heard.popleft()))

    def _receive_again(self, operation: Receive | Select, came: Callable[[], int]) -> bool:
        """As it has happened in the other world."""
        if self.has_unread(operation):
            return self.call(operation)
        what, count = self._next_that_happened(came)
        if what == "outside":
            for _ in range(count):
                self.step(events.MessageReceived(self.heard.popleft()))
            return False
        assert not self.call(operation)
        self._wake(count)
        while not self.out:
            what, count = self._next_that_happened(came)
            assert what == "woken"
            self._wake(count)
        return True

    def _next_that_happened(self, came: Callable[[], int]) -> tuple[str, int]:
        while (happened := self.happened.popleft())[0] == "came":
            assert came() == happened[1]
        return happened


def fds_of(operation: Receive | Select) -> tuple[int, ...]:
    return (operation.fd,) if isinstance(operation, Receive) else operation.fds


class Line:
    """The sockets, and what else C is lent of a transport and of a poller."""

    def __init__(self, birth_id: BirthId = PRIMARY, largest: int = LARGEST) -> None:
        self._hearing, self._own, self._sending, self._client = (_udp() for _ in range(4))
        be_patient(self._hearing)
        self._epoll, self._urgent = select.epoll(), select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll.register(self._hearing, select.EPOLLIN)
        self._epoll.register(self._own, select.EPOLLIN)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._urgent.register(self._own, select.EPOLLIN)
        self.fileno, self.urgent_fileno = self._epoll.fileno(), self._urgent.fileno()
        self._sealers = {
            birth_id: Sealer(KeyRing(), group_id, birth_id)
            for group_id, birth_id in (
                *((CLIENTS, CLIENT), (OTHERS, OTHER)),
                *((SERVERS, PRIMARY), (SERVERS, BACKUP), (SERVERS, THIRD)),
            )
        }
        self._opened = Opener(KeyRing(), CLIENT)
        self.windows: dict[tuple[BirthId, int], ReplayWindow] = {}
        self.awaited = False
        self.taken_count = 0
        """In the last dialogue, if nobody was woken by them."""
        sealer = Sealer(KeyRing(), SERVERS, birth_id)
        self._datagrams = compiled_datagrams().Datagrams(
            sending_fd=self._sending.fileno(),
            largest=largest,
            prefix=sealer.prefix,
            own_birth=BIRTH.pack(*birth_id),
            keys={0: b""},
            person=DATAGRAM_PURPOSE,
        )

    def put(self, data: bytes) -> None:
        self.put_all([data])

    def put_all(self, datagrams: list[bytes]) -> None:
        """Those of one size, and a smaller one behind them, come together where they are asked for so,
        whoever has said them."""
        batch: list[bytes] = []
        for data in datagrams:
            if batch and not self._goes_with(batch, data):
                self._put_together(batch)
                batch = []
            batch.append(data)
        if batch:
            self._put_together(batch)

    def _goes_with(self, batch: list[bytes], data: bytes) -> bool:
        if _envelope(batch[0])[1] != _envelope(data)[1] or len(batch) == TOGETHER:
            return False
        return len(data) <= len(batch[0]) == len(batch[-1])

    def _put_together(self, batch: list[bytes]) -> None:
        sealed = [self.seal(data) for data in batch]
        hearing = self._hearing if _envelope(batch[0])[1] == Channel.TO_GROUP else self._own
        if len(sealed) > 1 and len(sealed) * len(sealed[0]) < LARGEST:
            segment = (socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", len(sealed[0])))
            self._client.sendmsg([b"".join(sealed)], [segment], 0, hearing.getsockname())
            return
        for each in sealed:
            self._client.sendto(each, hearing.getsockname())

    def seal(self, data: bytes) -> bytes:
        sender, channel = _envelope(data)
        return self._sealers[sender].seal(data, channel)

    def put_sealed(self, sealed: bytes) -> None:
        self._client.sendto(sealed, self._hearing.getsockname())

    def said(self) -> list[tuple[int, bytes]]:
        """To which group, and what."""
        found = []
        while True:
            try:
                opened = self._opened.open(self._client.recv(LARGEST))
            except BlockingIOError:
                return found
            assert opened is not None
            found.append((decode(opened[1]).header.dest_group_id, opened[1]))

    def rest(self) -> list[bytes]:
        """What was put and not taken."""
        left: list[bytes] = []
        for sock in (self._hearing, self._own):
            while found := self._datagrams.receive(sock.fileno(), 256):
                left += [data for *_, data, _ in found]
        return left

    @property
    def hears_batches(self) -> bool:
        return bool(self._hearing.getsockopt(socket.IPPROTO_UDP, UDP_GRO))

    def wake(self) -> None:
        os.eventfd_write(self._wake_fd, 1)

    def was_woken(self) -> None:
        os.eventfd_read(self._wake_fd)

    def line(self, birth_id: BirthId, group_id: int) -> tuple[Any, int, int, bytes, Any]:
        to = (self._client.getsockname(),)
        newest = self._window(birth_id, Channel.TO_GROUP).newest
        return self._datagrams, self._hearing.fileno(), newest, BIRTH.pack(*birth_id), to

    @property
    def sending_fileno(self) -> int:
        return self._own.fileno()

    def fellow_line(self, birth_id: BirthId, group_id: int) -> tuple[bytes, int, int, Any, Any]:
        newest = [
            self._window(birth_id, channel).newest for channel in (Channel.TO_GROUP, Channel.TO_PROCESS)
        ]
        to = (self._client.getsockname(),)
        return BIRTH.pack(*birth_id), newest[0], newest[1], to, to

    def group_line(self, group_id: int) -> Any:
        return (self._client.getsockname(),)

    def _window(self, birth_id: BirthId, channel: int) -> ReplayWindow:
        return self.windows.setdefault((birth_id, channel), ReplayWindow())

    def heard_on_line(self, birth_id: BirthId, runs: list[tuple[int, int]], channel: Channel) -> None:
        for first, count in runs:
            for number in range(first, first + count):
                assert self._window(birth_id, channel).accept(number)
            self.taken_count += count

    def open_all(self, taken: list[Any]) -> list[bytes]:
        return [data for _, _, number, data, _ in taken if self._window(*_envelope(data)).accept(number)]

    def close(self) -> None:
        self._datagrams.close()
        os.close(self._wake_fd)
        for each in (self._hearing, self._own, self._sending, self._client, self._epoll, self._urgent):
            each.close()


def _next_of(fd: int, connection: Connection) -> tuple[int, int]:
    return fd, connection.received_up_to + 1 - connection.in_base


def _numbered(message: Message, fd: int) -> tuple[tuple[int, int], bool]:
    """Of which message a datagram is, and whether it is its last one."""
    header = message.header
    return (fd, header.msg_seq_num), header.fragment_index == header.fragment_count - 1


def _envelope(data: bytes) -> tuple[BirthId, Channel]:
    """Whose it is, and for whom."""
    message = decode(data)
    header = message.header
    if header.source_group_id != SERVERS:
        return OTHER if header.source_group_id == OTHERS else CLIENT, Channel.TO_GROUP
    if header.message_type == MessageType.KEEP_ALIVE:
        return PRIMARY, Channel.TO_PROCESS if header.flags & MessageFlag.COMMITS else Channel.TO_GROUP
    body: Any = decode_body(header.message_type, message.payload)
    return body.sender, Channel.TO_PROCESS if header.message_type == MessageType.HELD else Channel.TO_GROUP


def compiled_datagrams() -> Any:
    return sys.modules["llft.runtime.transport.datagrams"]


def _udp() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return made


def _die(reason: str) -> NoReturn:
    raise  # while an exception is handled
