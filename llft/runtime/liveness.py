"""Death certificates (D-23): a timeout suspects, a kernel knows.

Members of a group keep silent TCP connections to one another. When a process dies, its kernel closes its
sockets, and the end of the stream at the peer is a *certificate*. Only the end (or the reset) of an
established, authenticated connection certifies. A connect that fails, a timeout, an unreachable host say
nothing about the process; nor does an end after a farewell (`runtime.service_port`).

On one host the kernel tells sooner, by the peer's lifeline (`runtime.native`); it is the same certificate.

Each member connects to every peer that it hears and has no connection with. Two that connect to each other
at once have two connections, which does no harm: each death is told once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llft.errors import PeerError
from llft.identifiers import BirthId, GroupId
from llft.instant import MS, SECOND
from llft.runtime.log_service import (
    LogSource,
    Provide,
    ProvideState,
    fetch_log,
    fetch_log_into,
    fetch_state,
)
from llft.runtime.native.lifeline import Lifeline
from llft.runtime.service_connection import Phase
from llft.runtime.service_port import MOST_CONNECTIONS, ServicePort
from llft.runtime.settings import Settings
from llft.runtime.transport import Peer, Transport, open_keys

__all__ = ["Liveness", "LogSource", "fetch_log", "fetch_log_into", "fetch_state"]

HOUSEKEEPING_NS: Final = 20 * MS
RETRY_NS: Final = SECOND
UNHEARD_NS: Final = 60 * SECOND
MOST_REMEMBERED_DEAD: Final = 1024


class Liveness:
    def __init__(
        self,
        settings: Settings,
        group_id: GroupId,
        birth_id: BirthId,
        transport: Transport,
        *,
        provide: Provide = lambda start, end: None,
        provide_state: ProvideState = lambda start, end, position: None,
        lifeline: Lifeline | None = None,
    ) -> None:
        self._lifeline = lifeline
        self._held: dict[BirthId, None] = {}
        """Whose lifelines are watched."""
        self._keys = open_keys(settings)
        self._group_id = group_id
        self._transport = transport
        self._retry_ns: dict[BirthId, int] = {}
        self._dead: dict[BirthId, None] = {}
        self._certificates: list[BirthId] = []
        self._certified_count = 0
        self._housekeeping_ns = 0
        interface = settings.transport.interface
        self._service = ServicePort(
            interface,
            self._keys,
            group_id,
            birth_id,
            provide=provide,
            provide_state=provide_state,
            certify=self._certify,
        )
        self.port = self._service.number

    def filenos(self) -> tuple[int, ...]:
        """They stay the same."""
        service = self._service.fileno()
        return (service,) if self._lifeline is None else (service, self._lifeline.fileno())

    def work(self, now_ns: int, *, ready: bool = True) -> None:
        """Whatever is ready, and whatever is due. Never blocks."""
        if ready:
            if self._lifeline is not None:
                for birth_id in self._lifeline.take_dead():
                    self._certify(birth_id)
            self._service.work(now_ns)
        if now_ns >= self._housekeeping_ns:
            self._housekeeping_ns = now_ns + HOUSEKEEPING_NS
            self._service.expire(now_ns)
            self._tend_peers(now_ns)

    def take_certificates(self) -> list[BirthId]:
        """Each death once."""
        found, self._certificates = self._certificates, []
        return found

    def peer(self, birth_id: BirthId) -> LogSource:
        """Where a member serves the birth log. Any thread may ask."""
        for peer in self._transport.peers():
            if peer.birth_id == birth_id:
                return LogSource(peer.ip, peer.service_port, birth_id, self._group_id, self._keys)
        raise PeerError("peer_unknown", "it was not heard lately", birth_id=str(birth_id))

    def watched(self) -> tuple[BirthId, ...]:
        """Whose deaths would be certified."""
        connections = self._service.connections.values()
        return tuple(dict.fromkeys(each.birth_id for each in connections if each.phase is Phase.WATCHING))

    def statistics(self) -> dict[str, int]:
        own = {"certificates": self._certified_count, "watched": len(self.watched())}
        return {**self._service.counts, **own, "connections": len(self._service.connections)}

    def close(self) -> None:
        self._service.close()

    def abandon(self) -> None:
        self._service.abandon()

    def _certify(self, birth_id: BirthId) -> None:
        if birth_id in self._dead:
            return
        if len(self._dead) >= MOST_REMEMBERED_DEAD:
            del self._dead[next(iter(self._dead))]
        self._dead[birth_id] = None
        self._certificates.append(birth_id)
        self._certified_count += 1

    def _tend_peers(self, now_ns: int) -> None:
        """Connect to those that are heard, leave those that have not been for long."""
        peers = {peer.birth_id: peer for peer in self._transport.peers() if peer.service_port}
        for birth_id in [each for each, retry_ns in self._retry_ns.items() if retry_ns <= now_ns]:
            del self._retry_ns[birth_id]
        busy = dict.fromkeys((*self._dead, *self._retry_ns))
        for connection in tuple(self._service.connections.values()):
            if connection.phase is Phase.WATCHING:
                busy[connection.birth_id] = None
                if connection.birth_id not in peers and now_ns - connection.since_ns >= UNHEARD_NS:
                    self._service.end(connection, now_ns)
            elif connection.outgoing and connection.phase is not Phase.LEAVING:
                busy[connection.birth_id] = None
        self._watch_lifelines(peers)
        for birth_id, peer in peers.items():
            if birth_id not in busy and len(self._service.connections) < MOST_CONNECTIONS:
                self._retry_ns[birth_id] = now_ns + RETRY_NS
                self._service.connect(peer, now_ns)

    def _watch_lifelines(self, peers: Mapping[BirthId, Peer]) -> None:
        if self._lifeline is None:
            return
        for birth_id in [each for each in self._held if each not in peers]:
            del self._held[birth_id]
        for birth_id in peers:
            if birth_id not in self._held and birth_id not in self._dead and self._lifeline.watch(birth_id):
                self._held[birth_id] = None
