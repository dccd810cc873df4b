"""A virtual TCP socket: fresh, then listening, or connecting and connected.

    fresh --listen--> listening                      accept() gives connected ones
    fresh --connect--> connecting --> connected      or fresh again, with an error

Addresses are what the program was told: the preamble's, the configuration's, or the gateway's. Options are
remembered and answered, and have no effect: there is no TCP underneath.
"""

from __future__ import annotations

import _socket
import errno

from llft.interpose import counting, passage
from llft.interpose.asking import ask
from llft.interpose.connecting import Attempt
from llft.interpose.descriptors import Answered, Asked, Description, Ready, Watched, system_error, would_block
from llft.interpose.monitor import entered
from llft.interpose.reception import Arrival, Listener, reception
from llft.interpose.streams import Local, Remote, Stream
from llft.interpose.waiting import Deadline
from llft.wire.preamble import NO_ADDRESS, Address

NativeSocket = _socket.socket
_LOOPBACK = {_socket.AF_INET: "127.0.0.1", _socket.AF_INET6: "::1"}
_ANY = {_socket.AF_INET: "0.0.0.0", _socket.AF_INET6: "::"}


class TcpSocket(Description):
    def __init__(self, family: int) -> None:
        super().__init__()
        self.family = family
        self.local = NO_ADDRESS
        self.remote = NO_ADDRESS
        self.stream: Stream | None = None
        self.listener: Listener | None = None
        self.attempt: Attempt | None = None
        self.options: dict[tuple[int, int], int | bytes] = {}

    @classmethod
    def arrived(cls, family: int, arrival: Arrival) -> TcpSocket:
        self = cls(family)
        self.stream, self.local, self.remote = arrival.stream, arrival.local, arrival.remote
        return self

    def connected(self) -> Stream:
        if self.stream is None:
            raise system_error(errno.ENOTCONN)
        return self.stream

    # -- readiness ---------------------------------------------------------------------------------

    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        if self.stream is not None:
            return self.stream.probe(reading, writing, asked)
        if self.listener is not None:
            if reading and not self.listener.arrivals:
                reception.ask(asked)
            return reading and bool(self.listener.arrivals), False
        if self.attempt is not None:
            if not self.attempt.finished:
                self.attempt.ask(asked)
                return False, False
            return reading and bool(self.attempt.error), writing
        return False, False

    def settle(self, reading: bool, writing: bool, answered: Answered) -> Ready:
        if self.stream is not None:
            return self.stream.settle(reading, writing, answered)
        if self.listener is not None:
            if reading and not self.listener.arrivals:
                reception.advance(answered)
            return reading and bool(self.listener.arrivals), False
        if self.attempt is not None:
            self.attempt.advance(answered)
            finished = self.attempt.finished
            return reading and finished and bool(self.attempt.error), writing and finished
        return False, False

    def watched(self) -> tuple[Watched, ...]:
        if self.listener is not None:
            return (self.listener,)
        return self.stream.watched() if isinstance(self.stream, Local) else ()

    # -- listening ---------------------------------------------------------------------------------

    @entered
    def bind(self, address: Address) -> None:
        if self.local.port:
            raise system_error(errno.EINVAL)
        if not address.port:
            address = Address(address.host, ask("port", _free_port, self.family, address.host))
        elif self._is_taken(address):
            raise system_error(errno.EADDRINUSE)
        self.local = address

    def _is_taken(self, address: Address) -> bool:
        reuse = (_socket.SOL_SOCKET, _socket.SO_REUSEPORT)
        return reception.find(address) is not None and not self.options.get(reuse)

    @entered
    def listen(self) -> None:
        if self.stream is not None or self.attempt is not None:
            raise system_error(errno.EINVAL)
        if self.listener is None:
            if not self.local.port:
                self.bind(Address(self.local.host or _ANY[self.family], 0))
            if self._is_taken(self.local):
                raise system_error(errno.EADDRINUSE)
            self.listener = reception.open(self.local)

    @entered
    def accept(self, timeout_ns: int) -> Arrival:
        listener = self.listener
        if listener is None:
            raise system_error(errno.EINVAL)
        if not listener.arrivals:
            if timeout_ns == 0:
                self._look()
            deadline = Deadline(timeout_ns)
            while not listener.arrivals:
                if timeout_ns == 0:
                    raise would_block()
                if self.listener is None:
                    raise system_error(errno.EBADF)
                deadline.block_on(self, True, False)
        return listener.arrivals.popleft()

    def _look(self) -> None:
        """A non-blocking accept of a program that did not wait for readiness."""
        from llft.interpose.waiting import wait

        wait([(self, True, False)], 0)

    # -- connecting --------------------------------------------------------------------------------

    @entered
    def connect(self, destination: Address, timeout_ns: int) -> int:
        """0, or an errno: EINPROGRESS if it does not block."""
        if self.listener is not None or (self.stream is not None):
            return errno.EISCONN
        if self.attempt is None:
            local = Address(self.local.host or _LOOPBACK[self.family], self.local.port)
            self.attempt = Attempt(destination, local, blocking=timeout_ns < 0 and not passage.ordered)
            self.remote = destination
        elif not self.attempt.finished and timeout_ns == 0:
            return errno.EALREADY
        deadline = Deadline(timeout_ns)
        while not self.attempt.finished:
            if timeout_ns == 0:
                return errno.EINPROGRESS
            deadline.block_on(self, False, True)
        return self.take_error()

    @entered
    def take_error(self) -> int:
        """SO_ERROR: told once."""
        if self.attempt is None or not self.attempt.finished:
            return 0
        error = self.attempt.error
        if not error:
            self._take_stream()
        self.attempt = None
        return error

    def _take_stream(self) -> None:
        if self.attempt is not None and self.attempt.stream is not None:
            self.stream, self.local = self.attempt.stream, self.attempt.local
            self.attempt = None

    # -- bytes -------------------------------------------------------------------------------------

    def receive(self, limit: int, timeout_ns: int, peek: bool = False) -> bytes:
        if self.stream is None:
            self._settle_attempt()
        stream = self.connected()
        data = stream.receive(limit, timeout_ns, peek)
        if isinstance(stream, Remote) and not stream.read_ended:
            counting.know(self, stream, stream.fd)
        return data

    def send(self, data: bytes, timeout_ns: int) -> int:
        if self.stream is None:
            self._settle_attempt()
        return self.connected().send(data, timeout_ns)

    def _settle_attempt(self) -> None:
        if self.attempt is not None:
            if not self.attempt.finished:
                raise would_block()
            error = self.take_error()
            if error:
                raise system_error(error)

    def shutdown(self, how: int) -> None:
        stream = self.connected()
        if how != _socket.SHUT_WR:
            stream.end_reading()
        if how != _socket.SHUT_RD:
            stream.half_close()

    @entered
    def close(self) -> None:
        if self.listener is not None:
            listener, self.listener = self.listener, None
            reception.close(listener)
            listener.changed()
        if self.attempt is not None:
            self._take_stream()
        if self.attempt is not None:
            self.attempt.give_up()
        if self.stream is not None:
            self.stream.close()


def _free_port(family: int, host: str) -> int:
    """At the primary: a port that is free there. Nothing keeps it until the gateway listens."""
    probe = NativeSocket(family, _socket.SOCK_STREAM)
    try:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
    finally:
        probe.close()
