"""Where connections from other groups arrive, and which of the program's listeners gets them.

The core has one queue of incoming connections (fd 0); the first bytes on each, the preamble, say which
address it is for. A connection whose preamble is not complete is in the *hall*: whoever waits on a listener
waits on the hall too, and takes everybody's connections forward, not only its own. Laws:

* A connection in the hall is read by one thread at a time: it is out of the hall meanwhile. (Two readers
  would tear the program's first bytes off with the preamble.)
* A connection that is for nobody, or that speaks another protocol, is closed.
"""

from __future__ import annotations

from collections import deque

from llft.core.determinizer.operations import WOULD_BLOCK, Accept, Close, Receive
from llft.errors import PeerError
from llft.interpose import passage
from llft.interpose.descriptors import Answered, Asked, Watched
from llft.interpose.streams import Remote, Stream
from llft.wire.preamble import PREAMBLE_BYTES, Address, Inbound, unpack

DOOR = 0
"""The core's descriptor on which connections arrive."""

BACKLOG_MAX = 4096
HALL_MAX = 1024
"""Connections that have come and not said what they want: no more are let in until some have."""

WILDCARDS = ("0.0.0.0", "::")


class Arrival:
    __slots__ = ("local", "remote", "stream")

    def __init__(self, stream: Stream, local: Address, remote: Address) -> None:
        self.stream, self.local, self.remote = stream, local, remote


class Listener(Watched):
    __slots__ = ("address", "arrivals")

    def __init__(self, address: Address) -> None:
        super().__init__()
        self.address = address
        self.arrivals: deque[Arrival] = deque()


class Reception:
    def __init__(self) -> None:
        self.listeners: dict[Address, Listener] = {}
        self.hall: dict[int, bytes] = {}
        """By descriptor: what those have said so far who have not said what they want."""

    def open(self, address: Address) -> Listener:
        listener = self.listeners[address] = Listener(address)
        passage.port().listening(address.host, address.port)
        return listener

    def close(self, listener: Listener) -> None:
        if self.listeners.get(listener.address) is listener:
            del self.listeners[listener.address]
            passage.port().not_listening(listener.address.host, listener.address.port)
        while listener.arrivals:
            listener.arrivals.popleft().stream.close()

    def find(self, address: Address, *, leniently: bool = False) -> Listener | None:
        """The listener for an address; leniently: any on that port, for hosts have several names."""
        candidates = [address, *(Address(host, address.port) for host in WILDCARDS)]
        for candidate in candidates:
            if candidate in self.listeners:
                return self.listeners[candidate]
        if leniently:
            return next(
                (found for known, found in self.listeners.items() if known.port == address.port), None
            )
        return None

    def is_empty(self) -> bool:
        """Nobody has come whom the program has not accepted."""
        return not self.hall and not any(listener.arrivals for listener in self.listeners.values())

    def ask(self, asked: Asked) -> None:
        if len(self.hall) < HALL_MAX:
            asked.reading[DOOR] = None
        for fd in self.hall:
            asked.reading[fd] = None

    def advance(self, answered: Answered) -> None:
        """Take forward whatever the core says is ready; each once, however many listeners look."""
        if DOOR in answered.readable:
            answered.readable.discard(DOOR)
            accepted = passage.call(Accept(blocking=False))
            if accepted != WOULD_BLOCK:
                assert isinstance(accepted, tuple)
                fd = accepted[0]
                assert isinstance(fd, int)
                self.hall[fd] = b""
        for fd in [fd for fd in self.hall if fd in answered.readable]:
            answered.readable.discard(fd)
            head = self.hall.pop(fd, None)
            if head is not None:
                self._greet(fd, head)

    def _greet(self, fd: int, head: bytes) -> None:
        data = passage.call(Receive(fd, PREAMBLE_BYTES - len(head), blocking=False))
        if data == WOULD_BLOCK:
            self.hall[fd] = head
        elif not isinstance(data, bytes) or not data:
            passage.call(Close(fd))
        elif len(head) + len(data) < PREAMBLE_BYTES:
            self.hall[fd] = head + data
        else:
            self._show_in(fd, head + data)

    def _show_in(self, fd: int, data: bytes) -> None:
        try:
            preamble = unpack(data)
        except PeerError:
            passage.call(Close(fd))
            return
        listener = self.find(preamble.destination, leniently=True) if isinstance(preamble, Inbound) else None
        if listener is None or not isinstance(preamble, Inbound) or len(listener.arrivals) >= BACKLOG_MAX:
            passage.call(Close(fd))
            return
        self.deliver(listener, Arrival(Remote(fd), preamble.destination, preamble.source))

    def deliver(self, listener: Listener, arrival: Arrival) -> None:
        listener.arrivals.append(arrival)
        listener.changed()


reception = Reception()
