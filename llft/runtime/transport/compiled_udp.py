"""The transport on UDP with envelopes and system calls in C (`datagrams.c`): many datagrams by
one call, and no object for what is dropped. The same bytes as `udp`, and the same answers.

It is there where the compiled lane is.
"""

from __future__ import annotations

import _socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from llft import originals
from llft.errors import MisuseError
from llft.identifiers import BirthId, GroupId
from llft.runtime.transport import sockets
from llft.runtime.transport.envelope import BIRTH, DATAGRAM_PURPOSE, Channel, Version, gmac_keys
from llft.runtime.transport.interface import Address
from llft.runtime.transport.keys import KeyRing
from llft.runtime.transport.multicast import MulticastAddressing
from llft.runtime.transport.senders import NOWHERE
from llft.runtime.transport.udp import BATCH_DATAGRAMS, UdpTransport

Datagrams: Callable[..., Any] | None
BY_INSTRUCTIONS: bool
"""Whether this processor has some for GMAC."""
try:
    from llft.runtime.transport.datagrams import GMAC_BEST
    from llft.runtime.transport.datagrams import Datagrams as CompiledDatagrams
except ModuleNotFoundError:
    Datagrams, BY_INSTRUCTIONS = None, False
else:
    Datagrams, BY_INSTRUCTIONS = CompiledDatagrams, GMAC_BEST > 0
AVAILABLE: Final = Datagrams is not None
LINE_DESTINATIONS_MAX: Final = 16
WAYS_MAX: Final = 16
"""As C has it: to so many groups, those that are talked with."""
_PORT_BITS: Final = 16
_PORT_MASK: Final = (1 << _PORT_BITS) - 1


def line_of(transport: object) -> CompiledUdpTransport | None:
    """For dialogues: the transport itself, if it is this one."""
    return transport if isinstance(transport, CompiledUdpTransport) else None


class CompiledUdpTransport(UdpTransport):
    def _version(self) -> Version:
        return Version.GMAC if BY_INSTRUCTIONS else Version.BLAKE2B

    def _begin(self, keys: KeyRing, birth_id: BirthId) -> None:
        assert Datagrams is not None, "the compiled lane has it"
        self._datagrams = Datagrams(
            sending_fd=self._sending.fileno(),
            largest=self._largest,
            prefix=self._sealer.prefix,
            own_birth=BIRTH.pack(*birth_id),
            keys={number: keys.key(number) for number in keys.numbers()},
            person=DATAGRAM_PURPOSE,
            gmac_keys=gmac_keys(keys),
        )
        sockets.be_patient(self._sockets[-1])
        self._filenos = tuple(sock.fileno() for sock in reversed(self._sockets))
        self._ways: dict[Address, originals.Socket] = {}
        """Connected ones, the newest last."""
        self._now_ns = 0

    def _set_service_port(self, port: int) -> None:
        self._sealer.set_service_port(port)
        self._datagrams.set_prefix(self._sealer.prefix)

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        self._check_size(data)
        self._datagrams.send(data, Channel.TO_GROUP, self._destinations(group_id))

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        sender = self._opener.senders.of_birth(birth_id)
        if sender is None or sender.address == NOWHERE:
            self._counts["unknown_process"] += 1
            return
        self._check_size(data)
        self._datagrams.send(data, Channel.TO_PROCESS, (sender.address,))

    def seal_pulse(self, data: bytes) -> bytes:
        self._check_size(data)
        sealed: bytes = self._datagrams.seal(data, Channel.PULSE)
        return sealed

    def receive(self) -> list[bytes]:
        batch: list[bytes] = []
        self._now_ns = originals.monotonic_ns()
        for fileno in self._filenos:
            for identity, channel, number, data, address in self._datagrams.receive(fileno, BATCH_DATAGRAMS):
                if self._accept(identity, channel, number, address):
                    batch.append(data)
        return batch

    def _accept(self, identity: bytes, channel: int, number: int, address: int) -> bool:
        """Whether it came for the first time."""
        opener = self._opener
        sender = opener.senders.find(identity) or opener.senders.add(identity)
        if not sender.windows[channel].accept(number):
            opener.dropped["replayed"] += 1
            return False
        if sender.numbered_address != address:
            sender.numbered_address = address
            ip = _socket.inet_ntoa((address >> _PORT_BITS).to_bytes(4, "big"))
            sender.address = (ip, address & _PORT_MASK)
        sender.heard_ns = self._now_ns
        self._counts["received"] += 1
        return True

    # -- for dialogues (`runtime.dialogues.Line`) ----------------------------------------------------

    def line(self, birth_id: BirthId, group_id: GroupId) -> tuple[Any, int, int, bytes, Any] | None:
        sender = self._opener.senders.of_birth(birth_id)
        destinations = self._destinations(group_id)
        if sender is None or len(destinations) > LINE_DESTINATIONS_MAX:
            return None
        self._lead_to(destinations)
        newest = sender.windows[Channel.TO_GROUP].newest
        return self._datagrams, self._filenos[0], newest, BIRTH.pack(*birth_id), destinations

    def _lead_to(self, destinations: Sequence[Address]) -> None:
        """By a socket of its own, where it is one group's address. If there can be none, as before."""
        if len(destinations) != 1 or destinations[0] in self._ways:
            return
        if not isinstance(self._addressing, MulticastAddressing):
            return  # a process may be silent there, and what it says comes from there
        try:
            way = self._addressing.way_to(self._sending, destinations[0])
        except (OSError, MisuseError):
            return
        oldest = next(iter(self._ways)) if len(self._ways) == WAYS_MAX else None
        left = None if oldest is None else self._ways.pop(oldest)
        self._ways[destinations[0]] = way
        self._datagrams.set_ways([(to, sock.fileno()) for to, sock in self._ways.items()])
        if left is not None:
            left.close()

    def fellow_line(self, birth_id: BirthId, group_id: GroupId) -> tuple[bytes, int, int, Any, Any] | None:
        sender = self._opener.senders.of_birth(birth_id)
        to, others = self.route(birth_id), self._destinations(group_id)
        if sender is None or not to or len(others) > LINE_DESTINATIONS_MAX:
            return None
        numbers = [sender.windows[channel].newest for channel in (Channel.TO_GROUP, Channel.TO_PROCESS)]
        return BIRTH.pack(*birth_id), numbers[0], numbers[1], to, others

    def group_line(self, group_id: GroupId) -> Any:
        destinations = self._destinations(group_id)
        return destinations if len(destinations) <= LINE_DESTINATIONS_MAX else None

    def heard_on_line(self, birth_id: BirthId, runs: list[tuple[int, int]], channel: Channel) -> None:
        sender = self._opener.senders.of_birth(birth_id)
        if sender is None or not runs:
            return  # it was evicted meanwhile: then its window is a new one
        window = sender.windows[channel]
        for first, count in runs:
            window.accept_run(first, count)
            self._counts["received"] += count
        sender.heard_ns = originals.monotonic_ns()

    def open_all(self, taken: list[Any]) -> list[bytes]:
        self._now_ns = originals.monotonic_ns()
        return [
            data
            for identity, channel, number, data, address in taken
            if self._accept(identity, channel, number, address)
        ]

    def close(self) -> None:
        self._datagrams.close()
        for way in self._ways.values():
            way.close()
        super().close()

    def abandon(self) -> None:
        self._datagrams.close()
        for way in self._ways.values():
            way.detach()
        super().abandon()

    def statistics(self) -> dict[str, int]:
        found = super().statistics()
        for name, number in self._datagrams.counts().items():
            if name in found:
                found[name] += number
            else:
                found[f"dropped_{name}"] += number
        return found
