"""Where a group is, in a network with multicast: an address that follows from its id.

239.192.0.0/14 is the organisation-local scope: 18 bits of the group id fit. Two groups may share an
address; their messages name their groups, so that each ignores the other's.
"""

from __future__ import annotations

import _socket
from collections.abc import Sequence
from typing import Final

from llft import originals
from llft.identifiers import GroupId
from llft.runtime.transport import sockets
from llft.runtime.transport.interface import Address
from llft.runtime.transport.senders import Senders

_FIRST_ADDRESS: Final = 239 << 24 | 192 << 16
_MOST_GROUPS: Final = 1024
_GROUP_BITS: Final = (1 << 18) - 1
IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0  # `socket` has no names for them


def multicast_ip(group_id: GroupId) -> str:
    return _socket.inet_ntoa((_FIRST_ADDRESS | group_id & _GROUP_BITS).to_bytes(4, "big"))


class MulticastAddressing:
    def __init__(self, group_id: GroupId, interface: str, port: int) -> None:
        self._group_id = group_id
        self._interface = interface
        self._port = port
        self._destinations: dict[GroupId, tuple[Address, ...]] = {}

    def _let_send(self, sender: _socket.socket) -> bytes:
        interface = _socket.inet_aton(self._interface)
        sender.setsockopt(_socket.IPPROTO_IP, _socket.IP_MULTICAST_IF, interface)
        sender.setsockopt(_socket.IPPROTO_IP, _socket.IP_MULTICAST_TTL, 1)
        sender.setsockopt(_socket.IPPROTO_IP, _socket.IP_MULTICAST_LOOP, 1)
        return interface

    def way_to(self, sender: _socket.socket, destination: Address) -> originals.Socket:
        """A socket with the sender's address that is connected with a group's: the kernel has looked for the
        route once. It hears nothing, for nothing comes from there. OSError, MisuseError: not now."""
        way = sockets.open_socket(_socket.SOCK_DGRAM)
        try:
            with sockets.sharing_address(sender, way):
                way.bind(sender.getsockname())
            self._let_send(way)
            # Who is connected is told of errors by ICMP, which anybody may forge: of sizes it hears none.
            way.setsockopt(_socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
            way.connect(destination)
        except OSError:
            way.close()
            raise
        return way

    def prepare(self, sender: _socket.socket) -> _socket.socket:
        """Lets the unicast socket send to groups, and opens the one that hears one's own group."""
        interface = self._let_send(sender)
        hearing = sockets.open_socket(_socket.SOCK_DGRAM)
        # Several members on one host share the address; each gets every datagram.
        hearing.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        ip = multicast_ip(self._group_id)
        sockets.bind(hearing, (ip, self._port))
        membership = _socket.inet_aton(ip) + interface
        hearing.setsockopt(_socket.IPPROTO_IP, _socket.IP_ADD_MEMBERSHIP, membership)
        return hearing

    def destinations(self, group_id: GroupId, senders: Senders, now_ns: int) -> Sequence[Address]:
        found = self._destinations.get(group_id)
        if found is not None:
            return found
        if len(self._destinations) >= _MOST_GROUPS:
            self._destinations.clear()
        self._destinations[group_id] = ((multicast_ip(group_id), self._port),)
        return self._destinations[group_id]
