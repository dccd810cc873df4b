"""What the determinizer remembers of descriptors, on top of the port: connects that did not block, and peeks.

Both follow from the log alone, so every replica has them alike. Laws:

* *Unsettled* is a descriptor whose Connect did not block, until ConnectOutcome says that it is connected, or
  it is closed. While the connection is being made, nothing can be read or written.
* A peek *takes* from the connection (a READ entry, so that what an application has seen is delivered, and
  no message of an ended view can replace it) and keeps the bytes here; later calls get these
  first. A peek that left the bytes at the connection would have shown what may never be delivered.

The questions (`offer`, `writable`, `readable`, `failure`, `connect_outcome`) are for the primary only.
"""

from __future__ import annotations

from typing import Any, Literal

from llft.core.determinizer.operations import NOT_CONNECTED, Failure
from llft.core.determinizer.sockets import LISTENER, Connections


class Descriptors:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._pending_accept = connections.pending_accept
        self.unsettled: dict[int, None] = {}
        self.peeked: dict[int, bytes] = {}
        """Never empty bytes."""

    def connect_outcome(self, fd: int) -> Literal[True] | Failure | None:
        """None: still connecting."""
        if fd in self.unsettled:
            return self._connections.connect_state(fd)
        return self._connections.failure(fd) or True

    def offer(self, fd: int, limit: int) -> int | Failure | None:
        """How many bytes of the connection may be read, behind those that are peeked."""
        if fd in self.unsettled:
            outcome = self._connections.connect_state(fd)
            if outcome is not True:
                return outcome
        return self._connections.offer(fd, limit)

    def writable(self, fd: int) -> bool | Failure:
        if fd in self.unsettled:
            outcome = self._connections.connect_state(fd)
            if outcome is not True:
                return outcome or False
        return self._connections.writable(fd)

    def readable(self, fd: int) -> bool:
        """Whether a read would not block."""
        if fd == LISTENER:
            return self._pending_accept() is not None
        return fd in self.peeked or self.offer(fd, 1) is not None

    def failure(self, fd: int) -> Failure | None:
        """Why nothing more can be sent."""
        outcome = self.connect_outcome(fd)
        if outcome is None:
            return NOT_CONNECTED
        return None if outcome is True else outcome

    def keep_peeked(self, fd: int, data: bytes) -> bytes:
        """Bytes just taken join those that are peeked; returns all of them."""
        if data or fd in self.peeked:
            data = self.peeked[fd] = self.peeked.get(fd, b"") + data
        return data

    def take_peeked(self, fd: int, size: int, *, again: bool) -> bytes:
        """The first of the peeked bytes; `again`: they stay."""
        data = self.peeked[fd]
        if not again:
            if size == len(data):
                del self.peeked[fd]
            else:
                self.peeked[fd] = data[size:]
        return data[:size]

    def closed(self, fd: int) -> bool:
        """Forget the descriptor; true if it was unsettled."""
        self.peeked.pop(fd, None)
        return self.unsettled.pop(fd, False) is None

    def go_live(self) -> None:
        """Ask once, so that the time runs in which the connections must be made."""
        for fd in self.unsettled:
            self._connections.connect_state(fd)

    def capture(self) -> dict[str, Any]:
        state: dict[str, Any] = {"unsettled": list(self.unsettled), "peeked": self.peeked}
        return {name: value for name, value in state.items() if value}

    def adopt(self, state: dict[str, Any]) -> None:
        self.unsettled = dict.fromkeys(state.get("unsettled", ()))
        self.peeked = state.get("peeked", {})
