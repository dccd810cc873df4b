"""The gateway listens where the program does.

Replicas report where their program listens; the gateway is told, once for each of its lives. An address that
it never could have ends the run: the clients would look for the program there in vain. One that a new life
of the gateway cannot have yet is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llft.runtime.control_client import Inquiry
from llft.runtime.supervisor.port_holder import port_holder
from llft.runtime.supervisor.slot import Slot

Address = tuple[str, int]

RETRY_INTERVAL_S = 0.5
ORDER_PATIENCE_S = 5.0


class Listening:
    """What the gateway was told, and what it answered."""

    def __init__(self, gateway: Slot, tell: Callable[[str], None]) -> None:
        self._gateway = gateway
        self._tell = tell
        self._life = 0
        self._open: set[Address] = set()
        self._ever_open: set[Address] = set()
        self._orders: dict[Address, tuple[str, Inquiry, float]] = {}
        self._not_before_s: dict[Address, float] = {}
        self.failure = ""
        """Why the run cannot go on; empty: it can."""

    def filenos(self) -> list[int]:
        return [inquiry.fileno() for _, inquiry, _ in self._orders.values() if not inquiry.done]

    def update(self, wanted: Iterable[Address], now_s: float) -> None:
        """Give the orders that are due, take the answers."""
        if self._gateway.lives != self._life or self._gateway.process is None:
            self.close()
            self._open.clear()
            self._life = self._gateway.lives
        self._take_answers(now_s)
        # Until its first answer to `status` the gateway's socket need not exist yet.
        if self._gateway.process is None or self._gateway.status is None:
            return
        target = set(wanted)
        for address in sorted(target - self._open):
            self._order("listen", address, now_s)
        for address in sorted(self._open - target):
            self._order("unlisten", address, now_s)

    def close(self) -> None:
        for _, inquiry, _ in self._orders.values():
            inquiry.close()
        self._orders.clear()

    def addresses(self) -> list[Address]:
        return sorted(self._open)

    def _order(self, verb: str, address: Address, now_s: float) -> None:
        if address in self._orders or now_s < self._not_before_s.get(address, 0.0):
            return
        host, port = address
        inquiry = Inquiry(self._gateway.socket, {"do": verb, "host": host, "port": port})
        self._orders[address] = (verb, inquiry, now_s)

    def _take_answers(self, now_s: float) -> None:
        for address, (verb, inquiry, since_s) in list(self._orders.items()):
            inquiry.work()
            if not inquiry.done and now_s - since_s > ORDER_PATIENCE_S:
                inquiry.close(f"the gateway did not answer within {ORDER_PATIENCE_S:g} s")
            if inquiry.done:
                del self._orders[address]
                self._settle(verb, address, inquiry, now_s)

    def _settle(self, verb: str, address: Address, inquiry: Inquiry, now_s: float) -> None:
        host, port = address
        if inquiry.answer is not None and verb == "listen":
            self._open.add(address)
            self._ever_open.add(address)
            self._tell(f"the gateway listens on {host}:{port}")
        elif inquiry.answer is not None:
            self._open.discard(address)
            self._tell(f"the gateway no longer listens on {host}:{port}")
        else:
            self._not_before_s[address] = now_s + RETRY_INTERVAL_S
            holder = port_holder(port)
            held = f"; the port is held by {holder}" if holder else ""
            complaint = f"the gateway cannot {verb} on {host}:{port}: {inquiry.error}{held}"
            self._tell(complaint)
            if verb == "listen" and address not in self._ever_open:
                self.failure = complaint
