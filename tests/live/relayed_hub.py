"""The hub of `gateway_world` on real sockets, with the compiled parts that pass on for a gateway (D-76)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from llft.cli.free_port import free_port
from llft.identifiers import BirthId, GroupId
from llft.runtime.gateway import relaying
from llft.runtime.transport import compiled_udp
from llft.runtime.transport.compiled_udp import CompiledUdpTransport
from llft.runtime.transport.keys import KeyRing
from llft.runtime.transport.multicast import MulticastAddressing
from llft.wire.codec import decode
from tests.live.gateway_world import GATEWAY_GROUP, Hub
from tests.unit.compiled_parts import compiled_part

DATAGRAMS = "llft.runtime.transport.datagrams"
HERE = "127.0.0.1"
KEYS = KeyRing({1: b"k" * 32})


def compiled_relaying(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What it does is in its `dialogue_statistics`."""
    monkeypatch.setitem(sys.modules, DATAGRAMS, compiled_part(DATAGRAMS))
    monkeypatch.setattr(compiled_udp, "Datagrams", sys.modules[DATAGRAMS].Datagrams)  # type: ignore[attr-defined]
    native = compiled_part("llft.reading_on")
    monkeypatch.setattr(relaying, "native", native)
    return native


class LoopbackHub(Hub):
    """What a gateway says in C is lost where it is heard, all else before it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.udp_port = free_port()

    def connect(self, group_id: GroupId, birth_id: BirthId) -> Any:
        return Losing(self, group_id, birth_id)


class Losing(CompiledUdpTransport):
    def __init__(self, hub: LoopbackHub, group_id: GroupId, birth_id: BirthId) -> None:
        super().__init__(
            keys=KEYS,
            group_id=group_id,
            birth_id=birth_id,
            interface=HERE,
            addressing=MulticastAddressing(group_id, HERE, hub.udp_port),
        )
        self.service_port = 0
        self.hub, self.birth_id, self.group_id = hub, birth_id, group_id
        self.gateway: BirthId | None = None

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        if self.group_id == GATEWAY_GROUP or not self.hub.loses(self.birth_id, group_id, data):
            super().multicast(group_id, data)

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        if self.group_id == GATEWAY_GROUP or not self.hub.loses(self.birth_id, self.group_id, data):
            super().transmit(birth_id, data)

    def receive(self) -> list[bytes]:
        return [data for data in super().receive() if not self._is_lost(data)]

    def _is_lost(self, data: bytes) -> bool:
        header = decode(data).header
        return header.source_group_id == GATEWAY_GROUP and self.hub.loses(
            header.source_view.birth_id, self.group_id, data
        )
