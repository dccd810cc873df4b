"""One client of the demonstration's server: it knows what every reply must say."""

from __future__ import annotations

import socket
import time
from array import array
from bisect import bisect_right
from typing import Any

from llft.cli.demo_server import NO_HISTORY, next_digest
from llft.cli.load_history import LoadHistory

AROUND_NS = 100_000_000
"""A request that was sent so long after a kill belongs to it; later pauses have other causes (a rejoin)."""
CONNECT_PATIENCE_S = 10.0
_CHUNK_BYTES = 65_536


class Verdict:
    """What went wrong; all zero if nothing did."""

    def __init__(self) -> None:
        self.requests = self.replies = 0
        self.lost = self.duplicated = self.changed = self.broken = 0
        self.first_complaint = ""

    def complain(self, text: str) -> None:
        self.first_complaint = self.first_complaint or text

    def as_object(self) -> dict[str, Any]:
        return dict(vars(self))


class Client:
    """One connection and one account."""

    def __init__(self, number: int, port: int, verdict: Verdict, history: LoadHistory | None = None) -> None:
        self.name = f"client{number}"
        self.verdict = verdict
        self._history = history
        self.connection = connect(port)
        self.open = True
        self.number = 0
        """Of the last request."""
        self.waiting = False
        self.sent_ns = array("q")
        self.replied_ns = array("q")
        self._last_sent_ns = 0
        self._count = self._balance = self._moment = 0
        self._digest = NO_HISTORY
        self._received = b""

    def send(self) -> None:
        self.number += 1
        self.waiting = True
        self._last_sent_ns = time.monotonic_ns()
        self.verdict.requests += 1
        line = f"ADD {self.name} {self.number} {self._amount()}\n".encode()
        try:
            # One short line with none under way: the socket's buffer has room for it.
            self.connection.sendall(line)
        except OSError as error:
            self._break(f"send: {error}")

    def receive(self) -> None:
        try:
            chunk = self.connection.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(f"recv: {error}")
            return
        if not chunk:
            self._break("the connection was closed")
            return
        *lines, self._received = (self._received + chunk).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace").split())

    def _amount(self) -> int:
        return self.number % 97 + 1

    def _take(self, words: list[str]) -> None:
        if len(words) != 7 or words[0] != "OK":
            self._changed(f"reply {words}")
        elif not self.waiting or int(words[1]) != self.number:
            self.verdict.duplicated += 1
            self.verdict.complain(
                f"{self.name}: a second reply to {words[1]}, request {self.number} is under way"
            )
        else:
            self.waiting = False
            self.verdict.replies += 1
            self.sent_ns.append(self._last_sent_ns)
            self.replied_ns.append(time.monotonic_ns())
            self._note(int(words[2]), int(words[3]))
            self._check(int(words[2]), int(words[3]), words[4], int(words[5]), words[6])

    def _note(self, count: int, balance: int) -> None:
        if self._history is not None:
            times_ns = (self._last_sent_ns, self.replied_ns[-1])
            self._history.answered(self.name, self._amount(), f"{count} {balance}", count, times_ns)

    def note_unanswered(self) -> None:
        """At the end: a request that has no reply may have been performed, or not."""
        if self._history is not None and self.waiting:
            self._history.unanswered(self.name, self._amount(), self._last_sent_ns)

    def _check(self, count: int, balance: int, digest: str, moment: int, lot: str) -> None:
        expected = self._count + 1
        amount = self._amount()
        if count > expected:
            self.verdict.duplicated += count - expected
            self.verdict.complain(f"{self.name}: {count} requests done, {expected} sent")
        elif count < expected:
            self.verdict.lost += expected - count
            self.verdict.complain(f"{self.name}: {count} requests done, {expected} answered")
        elif balance != self._balance + amount:
            self._changed(f"balance {balance}, not {self._balance + amount}")
        elif digest != next_digest(self._digest, f"{self.number} {amount} {moment} {lot}"):
            self._changed(f"history of request {self.number}")
        elif moment < self._moment:
            self._changed(f"the server's clock went back by {self._moment - moment} ns")
        self._count, self._balance, self._digest, self._moment = count, balance, digest, moment

    def _changed(self, text: str) -> None:
        self.verdict.changed += 1
        self.verdict.complain(f"{self.name}: {text}")

    def _break(self, text: str) -> None:
        self.verdict.broken += 1
        self.verdict.complain(f"{self.name}: {text}")
        self.open = False
        self.connection.close()

    def longest_wait_ns(self, kill_ns: int) -> int | None:
        """Of the requests that a kill could have delayed; None: one of them still waits."""
        if self.open and self.waiting and self._last_sent_ns < kill_ns + AROUND_NS:
            return None
        first = bisect_right(self.replied_ns, kill_ns)
        waits = [0]
        for index in range(first, len(self.replied_ns)):
            if self.sent_ns[index] >= kill_ns + AROUND_NS:
                break
            waits.append(self.replied_ns[index] - self.sent_ns[index])
        return max(waits)


def connect(port: int) -> socket.socket:
    deadline_s = time.monotonic() + CONNECT_PATIENCE_S
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_PATIENCE_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    return connection
