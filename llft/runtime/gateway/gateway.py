"""The gateway: loop, shell, listeners and relays together.

One native thread does everything, a turn at a time: wait for the network, let the core and the virtual
threads act, serve the core's deadline. The cost of a turn depends on what happened in it, not on how many
connections are open.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from llft.config import GroupConfig, Limits, ThreadMode, Timeouts
from llft.core import events
from llft.core.determinizer.operations import Accept, Failure
from llft.core.replica import RandomSource, Replica
from llft.identifiers import BirthId, GroupId
from llft.instant import MS
from llft.journal.batch import Batch
from llft.journal.record import Record
from llft.runtime.gateway.listeners import Listeners
from llft.runtime.gateway.loop import Loop
from llft.runtime.gateway.relay import CLOSED, RECEIVE_BYTES, STOPPED, Counts, Relay, name_of
from llft.runtime.gateway.relaying import Relaying, WriteFrame, relay_statistics
from llft.runtime.gateway.shell import Carrier, Shell, Steps
from llft.runtime.transport.compiled_udp import line_of
from llft.wire.preamble import Address

FAREWELL_NS: Final = 300 * MS
"""So long an ending gateway tries to tell the group that its connections are closed."""
HALF_OPEN_BOUND_NS: Final = 300_000 * MS
"""So long, twice at most, a client may be silent whose group has ended its stream."""

_LARGE_DATAGRAM_BYTES: Final = 16 * 1024
_LOGGED_PER_SECOND: Final = 20


class Gateway:
    def __init__(
        self,
        group_id: GroupId,
        birth_id: BirthId,
        *,
        server_group_id: GroupId,
        carrier: Carrier,
        random: RandomSource,
        timeouts: Timeouts,
        limits: Limits,
        write: Callable[[Record], None] | None = None,
        write_batch: Callable[[Batch], None] | None = None,
        write_frame: WriteFrame | None = None,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        config = GroupConfig(
            group_id, threads=ThreadMode.ORDERED, outside=True, timeouts=timeouts, limits=limits
        )
        core = Replica(
            config, birth_id, local_clock=_local_clock, random=random, journalling=write is not None
        )
        self.group_id = group_id
        self.server_group_id = server_group_id
        self.loop = Loop()
        self.shell = Shell(core, carrier, write=write or _drop, write_batch=write_batch)
        self.listeners = Listeners(self.loop, self._on_client, log)
        self.counts = Counts()
        self.read_bytes = _read_bytes(core.messaging.fragment_room)
        line = line_of(carrier) if write is None or write_frame is not None else None
        self.relaying = Relaying(self.shell, line, read_bytes=self.read_bytes, write_frame=write_frame)
        self.relays: dict[int, Relay] = {}
        """The open connections, by the order of their coming."""
        self.half_open: dict[int, Relay] = {}
        self._log = Muffler(log, self.loop)
        self._relay_count = 0
        for fileno in carrier.filenos():
            self.loop.register(fileno, select.EPOLLIN, lambda mask: self.shell.receive())
        self.shell.step(events.Started(alone=True))
        self.shell.begin(self._accept_groups())
        self.loop.alarm(HALF_OPEN_BOUND_NS, self._forget_silent)

    # -- turns -------------------------------------------------------------------------------

    def turn(self, longest_wait_ns: int = 1000 * MS) -> None:
        shell, loop = self.shell, self.loop
        until_ns = shell.clock() + longest_wait_ns
        ready = self.relaying.wait(loop.fileno, min(until_ns, loop.next_alarm()))
        if ready is None:
            loop.turn(0 if shell.runs else min(shell.core.next_deadline(), until_ns))
        else:
            loop.dispatch(ready)
        shell.run()
        shell.serve_deadline()
        shell.run()

    def close(self) -> None:
        """Clients whose streams had not ended are told so (RST), and the group, within a bound."""
        self.listeners.close()
        for relay in list(self.relays.values()):
            relay.end(STOPPED)
        until_ns = self.shell.clock() + FAREWELL_NS
        while not self.shell.over and self._unfinished() and self.shell.clock() < until_ns:
            self.turn(10 * MS)
        self.loop.close()

    def _unfinished(self) -> bool:
        return bool(self.shell.runs) or any(connection.sent for connection in self.shell.core.messaging.table)

    # -- connections -------------------------------------------------------------------------

    def _on_client(self, connection: socket.socket, source: Address) -> None:
        relay = self._relay(f"client {name_of(source)}")
        try:
            steps = relay.accepted(connection, source, self.server_group_id)
        except OSError as error:  # it is gone already
            relay.end(f"client: {error.strerror}")
            connection.close()
            return
        self.shell.begin(steps)

    def _accept_groups(self) -> Steps:
        """A virtual thread: groups that want to connect to the outside."""
        while True:
            accepted = yield Accept()
            assert not isinstance(accepted, Failure), accepted
            fd, group_id = accepted
            self.shell.begin(self._relay(f"group {group_id}").requested(fd))

    def _relay(self, name: str) -> Relay:
        self._relay_count += 1
        relay = Relay(self, name, self._relay_count)
        self.relays[relay.number] = relay
        return relay

    def talks(self, relay: Relay) -> None:
        self.relaying.note(relay)

    def noted(self, text: str) -> None:
        self._log(text)

    def _forget_silent(self) -> None:
        for relay in list(self.half_open.values()):
            relay.forget_if_silent()
        self.loop.alarm(HALF_OPEN_BOUND_NS, self._forget_silent)

    def ended(self, relay: Relay) -> None:
        del self.relays[relay.number]
        self.relaying.forget(relay)
        self.half_open.pop(relay.number, None)
        if relay.over not in (CLOSED, STOPPED):
            self._log(f"{relay.name}: reset ({relay.over})")

    # -- for people --------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        counts = self.counts
        return {
            "group_id": self.group_id,
            "server_group_id": self.server_group_id,
            "listening": [list(address) for address in self.listeners.addresses],
            "open": len(self.relays),
            "accepted": counts.accepted,
            "connected": counts.connected,
            "bytes_in": counts.bytes_in,
            "bytes_out": counts.bytes_out,
            "ends": dict(counts.ends),
            "threads": self.shell.statistics(),
            "relaying": relay_statistics(),
            "core": self.shell.core.statistics(),
        }


class Muffler:
    """A log that many connections cannot flood: so many lines a second, then the number of the others."""

    def __init__(self, log: Callable[[str], None], loop: Loop) -> None:
        self._log = log
        self._loop = loop
        self._count = 0

    def __call__(self, text: str) -> None:
        if not self._count:
            self._loop.alarm(1000 * MS, self._sum_up)
        self._count += 1
        if self._count <= _LOGGED_PER_SECOND:
            self._log(text)

    def _sum_up(self) -> None:
        if self._count > _LOGGED_PER_SECOND:
            self._log(f"and {self._count - _LOGGED_PER_SECOND} more such events")
        self._count = 0


def _local_clock(clock_id: int) -> int:
    return time.clock_gettime_ns(clock_id)


def _read_bytes(datagram_room: int) -> int:
    """One message a datagram where datagrams are large; else large messages in fragments (D-12), for every
    message costs a step of the core here and at each replica."""
    return datagram_room if _LARGE_DATAGRAM_BYTES <= datagram_room <= RECEIVE_BYTES else RECEIVE_BYTES


def _drop(record: Record) -> None:
    """Without a journal."""
