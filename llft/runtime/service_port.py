"""The service port: a TCP listener and its connections, those that came and those that we made.

What a connection is for is said in its handshake: liveness (silent from then on) or the birth log. Laws:

1. Nothing blocks. Strangers are bounded in number, bytes and time.
2. Whoever lives and ends a connection that the other side may take for established says farewell first; the
   end of the stream alone is a certificate of death (`runtime.liveness`).
3. No keep-alive and no user timeout is set on a connection: their resets would come from a living process.

All sockets are in an epoll of our own, whose descriptor is readable when `work` has something to do.
"""

from __future__ import annotations

import _socket
import select
from collections.abc import Callable

from llft import originals
from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId, GroupId
from llft.instant import NEVER, SECOND
from llft.runtime.handshake import NONCE_BYTES, ClientHandshake, Handshake, Purpose, ServerHandshake
from llft.runtime.log_service import LogRequest, Provide, ProvideState
from llft.runtime.service_connection import FAREWELL, Phase, ServiceConnection
from llft.runtime.transport import Peer, sockets
from llft.runtime.transport.keys import KeyRing

STRANGER_NS = 2 * SECOND
FAREWELL_NS = 5 * SECOND
STALLED_NS = 30 * SECOND
MOST_STRANGERS = 32
MOST_CONNECTIONS = 256
_BACKLOG = 64


class ServicePort:
    """`certify` is called when the kernel of an established liveness peer has ended its connection."""

    def __init__(
        self,
        interface: str,
        keys: KeyRing,
        group_id: GroupId,
        birth_id: BirthId,
        *,
        provide: Provide,
        provide_state: ProvideState,
        certify: Callable[[BirthId], None],
    ) -> None:
        self._interface = interface
        self._keys = keys
        self._group_id = group_id
        self._birth_id = birth_id
        self._provide = provide
        self._provide_state = provide_state
        self._certify = certify
        self.connections: dict[int, ServiceConnection] = {}
        self.counts = dict.fromkeys(("farewells", "strangers_refused", "failed_connects"), 0)
        self._epoll = sockets.open_epoll()
        self._listener = sockets.open_socket(_socket.SOCK_STREAM)
        sockets.bind(self._listener, (interface, 0))
        self._listener.listen(_BACKLOG)
        self._listening = True
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self.number: int = self._listener.getsockname()[1]
        self._on_ready: dict[Phase, Callable[[ServiceConnection, int], None]] = {
            Phase.CONNECTING: self._on_connected,
            Phase.HANDSHAKE: self._on_handshake,
            Phase.WATCHING: self._on_watched,
            Phase.SERVING: self._on_served,
            Phase.LEAVING: self._on_leaving,
        }

    def fileno(self) -> int:
        return self._epoll.fileno()

    def work(self, now_ns: int) -> None:
        """Whatever is ready."""
        for fd, _ in self._epoll.poll(0, MOST_STRANGERS):
            if fd == self._listener.fileno():
                self._accept(now_ns)
            elif fd in self.connections:
                self._serve(self.connections[fd], now_ns)

    def expire(self, now_ns: int) -> None:
        """Whatever is due."""
        if not self._listening:
            self._listening = True
            self._epoll.modify(self._listener.fileno(), select.EPOLLIN)
        for connection in tuple(self.connections.values()):
            if now_ns >= connection.deadline_ns:
                self.end(connection, now_ns)

    def close(self) -> None:
        """For a process that lives on. One that ends just ends: that is its certificate."""
        for connection in tuple(self.connections.values()):
            if connection.handshake.proved:
                connection.say_farewell()
            self._drop(connection)
        self._listener.close()
        self._epoll.close()

    def abandon(self) -> None:
        """In a process restored from an image: the sockets are another process's, their numbers are free."""
        for connection in self.connections.values():
            connection.sock.detach()
        self._listener.detach()
        self._epoll.close()

    # -- beginnings ----------------------------------------------------------------------------------

    def _accept(self, now_ns: int) -> None:
        for _ in range(MOST_STRANGERS):
            try:
                sock = sockets.accept(self._listener)
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors, or gone already. `expire` looks again; until then do not spin.
                self.counts["strangers_refused"] += 1
                self._listening = False
                self._epoll.modify(self._listener.fileno(), 0)
                return
            if self._strangers() >= MOST_STRANGERS or len(self.connections) >= MOST_CONNECTIONS:
                self.counts["strangers_refused"] += 1
                sock.close()
                continue
            handshake = ServerHandshake(
                self._keys, self._group_id, self._birth_id, originals.urandom(NONCE_BYTES)
            )
            self._add(sock, handshake, Phase.HANDSHAKE, now_ns)

    def _strangers(self) -> int:
        return sum(
            each.phase is not Phase.WATCHING and not each.outgoing for each in self.connections.values()
        )

    def connect(self, peer: Peer, now_ns: int) -> None:
        handshake = ClientHandshake(
            self._keys,
            self._group_id,
            self._birth_id,
            originals.urandom(NONCE_BYTES),
            server_birth_id=peer.birth_id,
            purpose=Purpose.LIVENESS,
        )
        try:
            sock = sockets.open_socket(_socket.SOCK_STREAM)
        except (OSError, MisuseError):  # out of descriptors, which is the program's to say
            self.counts["failed_connects"] += 1
            return
        try:
            sock.bind((self._interface, 0))
            sock.connect((peer.ip, peer.service_port))
        except BlockingIOError:
            pass  # under way
        except OSError:
            self.counts["failed_connects"] += 1
            sock.close()
            return
        self._add(sock, handshake, Phase.CONNECTING, now_ns)

    def _add(self, sock: originals.Socket, handshake: Handshake, phase: Phase, now_ns: int) -> None:
        connection = ServiceConnection(
            sock, handshake, phase, since_ns=now_ns, deadline_ns=now_ns + STRANGER_NS
        )
        self.connections[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLOUT if connection.outgoing else select.EPOLLIN)

    # -- what happens on a connection ----------------------------------------------------------------------

    def _serve(self, connection: ServiceConnection, now_ns: int) -> None:
        try:
            self._on_ready[connection.phase](connection, now_ns)
        except PeerError:
            self.counts["strangers_refused"] += 1
            self.end(connection, now_ns)
        except OSError:
            # A timeout, a host that is not there: no certificate. The reset that is one is caught above.
            self._drop(connection)

    def _on_connected(self, connection: ServiceConnection, now_ns: int) -> None:
        handshake = connection.handshake
        assert isinstance(handshake, ClientHandshake)
        if connection.sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR):
            self.counts["failed_connects"] += 1
            self._drop(connection)
            return
        connection.sock.send(handshake.hello, sockets.QUIETLY)
        connection.phase = Phase.HANDSHAKE
        self._epoll.modify(connection.fd, select.EPOLLIN)

    def _on_handshake(self, connection: ServiceConnection, now_ns: int) -> None:
        handshake = connection.handshake
        data = connection.receive(handshake.wanted)
        if data is None:
            return
        if not data:
            self._drop(connection)
            return
        answer = handshake.feed(data)
        if answer and connection.sock.send(answer, sockets.QUIETLY) != len(answer):
            # A new connection's buffer takes this much; if not, the other side has no whole proof of ours.
            self._drop(connection)
            return
        if not handshake.established:
            return
        if handshake.purpose is Purpose.BIRTH_LOG:
            connection.phase = Phase.SERVING
            connection.deadline_ns = now_ns + STALLED_NS
            connection.request = LogRequest(handshake.session_key(), self._provide, self._provide_state)
        else:
            connection.phase = Phase.WATCHING
            connection.since_ns = now_ns
            connection.deadline_ns = NEVER

    def _on_watched(self, connection: ServiceConnection, now_ns: int) -> None:
        try:
            data = connection.receive(len(FAREWELL))
        except ConnectionResetError:
            data = b""
        if data is None:
            return
        if not data:
            self._certify(connection.birth_id)
            self._drop(connection)
        elif data == FAREWELL:
            self.counts["farewells"] += 1
            self._drop(connection)
        else:
            self.end(connection, now_ns)

    def _on_served(self, connection: ServiceConnection, now_ns: int) -> None:
        request = connection.request
        assert request is not None
        if request.sending():
            request.send(connection.sock)
            connection.deadline_ns = now_ns + STALLED_NS
            if request.finished:
                self._epoll.modify(connection.fd, select.EPOLLIN)
            return
        data = connection.receive(64)
        if data is None:
            return
        if not data or request.finished:
            self._drop(connection)
            return
        request.feed(data)
        if request.sending():
            self._epoll.modify(connection.fd, select.EPOLLOUT)

    def _on_leaving(self, connection: ServiceConnection, now_ns: int) -> None:
        if connection.receive(64) == b"":
            self._drop(connection)

    # -- ends ----------------------------------------------------------------------------------------

    def end(self, connection: ServiceConnection, now_ns: int) -> None:
        """Law 2: with a farewell, and the socket stays open for a while, because closing it with something
        unread would send a reset that may overtake the farewell."""
        handshake = connection.handshake
        said = connection.phase is Phase.LEAVING
        if said or handshake.purpose is Purpose.BIRTH_LOG or not handshake.proved:
            self._drop(connection)
            return
        connection.say_farewell()
        connection.phase = Phase.LEAVING
        connection.deadline_ns = now_ns + FAREWELL_NS

    def _drop(self, connection: ServiceConnection) -> None:
        self._epoll.unregister(connection.fd)
        del self.connections[connection.fd]
        connection.sock.close()
