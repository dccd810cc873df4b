"""Opens the transport that the settings ask for."""

from __future__ import annotations

from llft.errors import MisuseError
from llft.identifiers import BirthId, GroupId
from llft.runtime.settings import Settings, TransportMode
from llft.runtime.transport import sockets
from llft.runtime.transport.compiled_udp import AVAILABLE, CompiledUdpTransport
from llft.runtime.transport.interface import Address, Transport
from llft.runtime.transport.keys import KeyRing, load_keys
from llft.runtime.transport.lossy import LossyTransport
from llft.runtime.transport.multicast import MulticastAddressing
from llft.runtime.transport.udp import UdpTransport
from llft.runtime.transport.unicast import UnicastAddressing


def open_keys(settings: Settings) -> KeyRing:
    """The settings have seen to it that there is a key wherever one is needed."""
    return load_keys(settings.transport.key_file) if settings.transport.key_file else KeyRing()


def open_transport(settings: Settings, group_id: GroupId, birth_id: BirthId) -> Transport:
    """`service_port` is to be set before anything is sent."""
    transport = _open_udp(settings, group_id, birth_id)
    faults = settings.transport.fault_injection
    if faults.kernel_loss:
        transport.lose(faults.kernel_loss)
    if faults:
        return LossyTransport(transport, faults, birth_id)
    return transport


def _open_udp(settings: Settings, group_id: GroupId, birth_id: BirthId) -> UdpTransport:
    asked = settings.transport
    warnings: list[str] = []
    transport_type = CompiledUdpTransport if AVAILABLE else UdpTransport
    if asked.mode is TransportMode.MULTICAST:
        transport = transport_type(
            keys=open_keys(settings),
            group_id=group_id,
            birth_id=birth_id,
            interface=asked.interface,
            addressing=MulticastAddressing(group_id, asked.interface, asked.port),
        )
    else:
        members = _resolve_members(settings, warnings)
        if not any(members.values()):
            raise MisuseError(
                "no_members", 'list members = ["host:port", ...] under [groups.NAME], or use multicast'
            )
        transport = transport_type(
            keys=open_keys(settings),
            group_id=group_id,
            birth_id=birth_id,
            interface=asked.interface,
            addressing=UnicastAddressing(members),
            ports=[port for ip, port in members.get(group_id, ()) if ip == asked.interface],
        )
        if group_id in members and transport.address not in members[group_id]:
            warnings.append(
                f"no member at {asked.interface} is listed and free; this one is at {transport.address}"
            )
    transport.warnings += warnings
    return transport


def _resolve_members(settings: Settings, warnings: list[str]) -> dict[GroupId, list[Address]]:
    """A name that nobody knows now is left out: its host is learned when it is heard."""
    found: dict[GroupId, list[Address]] = {}
    for group_id, endpoints in settings.members().items():
        found[group_id] = []
        for endpoint in endpoints:
            address = sockets.resolve(endpoint.host, endpoint.port)
            if address is None:
                warnings.append(
                    f"member {endpoint}: the name is unknown here, so it cannot be sent to until it is heard"
                )
            else:
                found[group_id].append(address)
    return found
