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
    """One connection and one account. It sends `pipeline` requests at once, and waits for the replies."""

    def __init__(
        self,
        number: int,
        port: int,
        verdict: Verdict,
        history: LoadHistory | None = None,
        *,
        pipeline: int = 1,
    ) -> None:
        self.name = f"client{number}"
        self._pipeline = pipeline
        self.verdict = verdict
        self._history = history
        self.connection = connect(port)
        self.open = True
        self.sent = self.answered = 0
        """Numbers of the last request that was sent, and of the last one that was answered."""
        self.sent_ns = array("q")
        self.replied_ns = array("q")
        self._last_sent_ns = 0
        self._count = self._balance = self._moment = 0
        self._digest = NO_HISTORY
        self._received = b""

    @property
    def waiting(self) -> int:
        """So many requests are under way."""
        return self.sent - self.answered

    def send(self) -> None:
        numbers = range(self.sent + 1, self.sent + 1 + self._pipeline)
        self.sent = numbers[-1]
        self._last_sent_ns = time.monotonic_ns()
        self.verdict.requests += len(numbers)
        lines = "".join(f"ADD {self.name} {number} {_amount(number)}\n" for number in numbers)
        try:
            # A few short lines with none under way: the socket's buffer has room for them.
            self.connection.sendall(lines.encode())
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

    def _take(self, words: list[str]) -> None:
        if len(words) != 7 or words[0] != "OK":
            self._changed(f"reply {words}")
        elif int(words[1]) <= self.answered:
            self.verdict.duplicated += 1
            self.verdict.complain(f"{self.name}: a second reply to {words[1]}")
        elif int(words[1]) != self.answered + 1 or not self.waiting:
            self._changed(f"a reply to {words[1]}, the last one was to {self.answered}")
        else:
            self.answered += 1
            self.verdict.replies += 1
            self.sent_ns.append(self._last_sent_ns)
            self.replied_ns.append(time.monotonic_ns())
            self._note(int(words[2]), int(words[3]))
            self._check(int(words[2]), int(words[3]), words[4], int(words[5]), words[6])

    def _note(self, count: int, balance: int) -> None:
        if self._history is not None:
            times_ns = (self._last_sent_ns, self.replied_ns[-1])
            self._history.answered(self.name, _amount(self.answered), f"{count} {balance}", count, times_ns)

    def note_unanswered(self) -> None:
        """At the end: a request that has no reply may have been performed, or not."""
        if self._history is not None:
            for number in range(self.answered + 1, self.sent + 1):
                self._history.unanswered(self.name, _amount(number), self._last_sent_ns)

    def _check(self, count: int, balance: int, digest: str, moment: int, lot: str) -> None:
        expected = self._count + 1
        amount = _amount(self.answered)
        if count > expected:
            self.verdict.duplicated += count - expected
            self.verdict.complain(f"{self.name}: {count} requests done, {expected} sent")
        elif count < expected:
            self.verdict.lost += expected - count
            self.verdict.complain(f"{self.name}: {count} requests done, {expected} answered")
        elif balance != self._balance + amount:
            self._changed(f"balance {balance}, not {self._balance + amount}")
        elif digest != next_digest(self._digest, f"{self.answered} {amount} {moment} {lot}"):
            self._changed(f"history of request {self.answered}")
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


def _amount(number: int) -> int:
    """Of a request."""
    return number % 97 + 1


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
