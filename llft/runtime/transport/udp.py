"""The transport on UDP: one socket that sends and hears what is meant for this process, and with multicast
another one that hears the group.

A datagram that cannot be sent now (full buffer, no route, nobody there) is a lost datagram: counted, and the
core's acknowledgments see to it. So no call blocks, and none fails for what the network does.
"""

from __future__ import annotations

import _socket
import errno
from collections.abc import Iterable, Sequence
from typing import Final

from llft import originals
from llft.errors import MisuseError
from llft.identifiers import BirthId, GroupId
from llft.runtime.transport import sockets
from llft.runtime.transport.envelope import ENVELOPE_BYTES, Channel, Opener, Sealer, Version
from llft.runtime.transport.interface import Address, Peer
from llft.runtime.transport.kernel_loss import lose
from llft.runtime.transport.keys import KeyRing
from llft.runtime.transport.multicast import MulticastAddressing
from llft.runtime.transport.senders import NOWHERE
from llft.runtime.transport.unicast import UnicastAddressing

BATCH_DATAGRAMS: Final = 256
LOOPBACK_DATAGRAM_BYTES: Final = 60 * 1024
NETWORK_DATAGRAM_BYTES: Final = 1400
"""Fits an Ethernet frame with room for a tunnel's headers (D-12)."""

_COUNTED: Final = (
    *("sent", "sent_bytes", "received", "received_bytes"),
    *("lost_at_sending", "unknown_process", "receive_errors"),
)
_OUR_FAULT: Final = (errno.EBADF, errno.EMSGSIZE, errno.ENOTSOCK)
"""A send that fails for one of these would fail for ever: an error, and no lost datagram."""


class UdpTransport:
    def __init__(
        self,
        *,
        keys: KeyRing,
        group_id: GroupId,
        birth_id: BirthId,
        interface: str,
        addressing: MulticastAddressing | UnicastAddressing,
        ports: Sequence[int] = (),
    ) -> None:
        """The unicast socket takes the first of `ports` that is free, else one that the kernel chooses."""
        self._group_id = group_id
        self._service_port = 0
        self._sealer = Sealer(keys, group_id, birth_id, version=self._version())
        self._opener = Opener(keys, birth_id)
        self._addressing = addressing
        self._largest = LOOPBACK_DATAGRAM_BYTES if sockets.is_loopback(interface) else NETWORK_DATAGRAM_BYTES
        self.warnings: list[str] = []
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._sending = sockets.open_socket(_socket.SOCK_DGRAM)
        sockets.bind_first(self._sending, interface, (*ports, 0))
        self.address: Address = self._sending.getsockname()
        self._sockets = [self._sending]
        if isinstance(addressing, MulticastAddressing):
            hearing = addressing.prepare(self._sending)
            self._sockets.append(hearing)
        else:
            addressing.prepare(self.address)
        self._grow_buffers()
        self._begin(keys, birth_id)

    def _version(self) -> Version:
        """Of what this process seals: the MAC that is the quicker one without instructions for the other."""
        return Version.BLAKE2B

    def _begin(self, keys: KeyRing, birth_id: BirthId) -> None:
        """Sockets are open: for the transport that does all this in C."""

    def _grow_buffers(self) -> None:
        for sock in self._sockets:
            warning = sockets.grow_receive_buffer(sock)
            if warning and warning not in self.warnings:
                self.warnings.append(warning)

    def lose(self, probability: float) -> None:
        """For tests: so many of the datagrams that come, before anything of ours sees them."""
        for sock in self._sockets:
            lose(sock, probability)
        self.warnings.append(f"the kernel loses datagrams on purpose: {probability}")

    @property
    def service_port(self) -> int:
        return self._service_port

    @service_port.setter
    def service_port(self, port: int) -> None:
        self._service_port = port
        self._set_service_port(port)

    def _set_service_port(self, port: int) -> None:
        self._sealer.set_service_port(port)

    @property
    def payload_limit(self) -> int:
        return self._largest - ENVELOPE_BYTES

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        sealed = self._seal(data, Channel.TO_GROUP)
        for address in self._destinations(group_id):
            self._send(sealed, address)

    def _destinations(self, group_id: GroupId) -> Sequence[Address]:
        return self._addressing.destinations(group_id, self._opener.senders, originals.monotonic_ns())

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        sender = self._opener.senders.of_birth(birth_id)
        if sender is None or sender.address == NOWHERE:
            self._counts["unknown_process"] += 1
            return
        self._send(self._seal(data, Channel.TO_PROCESS), sender.address)

    def route(self, to: GroupId | BirthId) -> Sequence[Address]:
        if isinstance(to, int):
            return self._destinations(to)
        sender = self._opener.senders.of_birth(to)
        return () if sender is None or sender.address == NOWHERE else (sender.address,)

    def seal_pulse(self, data: bytes) -> bytes:
        return self._seal(data, Channel.PULSE)

    @property
    def sending_fileno(self) -> int:
        return self._sending.fileno()

    def _seal(self, data: bytes, channel: Channel) -> bytes:
        self._check_size(data)
        return self._sealer.seal(data, channel)

    def _check_size(self, data: bytes) -> None:
        """A receiver cuts what is longer, and takes it for a forgery: it would be sent again for ever."""
        if len(data) > self._largest - ENVELOPE_BYTES:
            remedy = "set Limits.datagram_bytes to the transport's payload_limit"
            raise MisuseError("datagram_too_large", remedy, length=len(data), limit=self.payload_limit)

    def _send(self, sealed: bytes, address: Address) -> None:
        try:
            self._sending.sendto(sealed, address)
        except OSError as error:
            if error.errno in _OUR_FAULT:
                raise
            self._counts["lost_at_sending"] += 1
        else:
            self._counts["sent"] += 1
            self._counts["sent_bytes"] += len(sealed)

    def receive(self) -> list[bytes]:
        """What is for the group comes first: it is the older and the larger part."""
        batch: list[bytes] = []
        for sock in reversed(self._sockets):
            self._drain(sock, batch)
        return batch

    def _drain(self, sock: originals.Socket, batch: list[bytes]) -> None:
        now_ns = originals.monotonic_ns()
        size = self._largest + 1
        opened = self._opener.open
        for _ in range(BATCH_DATAGRAMS):
            try:
                datagram, address = sock.recvfrom(size)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUR_FAULT:
                    raise
                # An ICMP answer to something sent before: that datagram is lost, the socket is not.
                self._counts["receive_errors"] += 1
                continue
            found = opened(datagram)
            if found is not None:
                sender, data = found
                sender.address = address
                sender.heard_ns = now_ns
                self._counts["received"] += 1
                self._counts["received_bytes"] += len(datagram)
                batch.append(data)

    def filenos(self) -> tuple[int, ...]:
        return tuple(sock.fileno() for sock in self._sockets)

    def urgent_filenos(self) -> tuple[int, ...]:
        return (self._sending.fileno(),) if len(self._sockets) > 1 else ()

    def peers(self) -> Iterable[Peer]:
        for sender in self._opener.senders.of_group(self._group_id, originals.monotonic_ns()):
            yield Peer(sender.birth_id, sender.address[0], sender.service_port)

    def statistics(self) -> dict[str, int]:
        senders = self._opener.senders
        dropped = {f"dropped_{reason}": number for reason, number in self._opener.dropped.items()}
        return {**self._counts, **dropped, "senders": len(senders), "senders_evicted": senders.evicted}

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    def abandon(self) -> None:
        """In a process restored from an image: the sockets are another process's, their numbers are free."""
        for sock in self._sockets:
            sock.detach()
