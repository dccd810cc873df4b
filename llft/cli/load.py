"""Clients of the demonstration's server, in a process of their own: `python -m llft.cli.load --port N`.

Each client keeps one TCP connection and one account, and has one request under way (or `--pipeline` of them,
sent at once). It computes itself what
every reply must say, so a request that was lost, done twice or changed shows at once. One epoll loop and no
threads: what is measured is the server's pause and not that of our interpreter.

Orders come on standard input, answers go to standard output, an object a line each:

    {"do": "count"}                               the counts so far
    {"do": "waits", "from_ns": A, "to_ns": B}     of the requests that were answered then, in milliseconds
    {"do": "gap", "kill_ns": T, "view_ns": V}     what the clients felt of a kill at T; {"pending": true}:
                                                  they still do
    {"do": "stop"}                                no more requests: wait for the last replies, count, and end
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import select
import sys
import time
from bisect import bisect_right
from typing import Any

from llft.cli.load_client import AROUND_NS, CONNECT_PATIENCE_S, Client, Verdict, connect
from llft.cli.load_history import LoadHistory
from llft.cli.percentiles import percentiles

LAST_REPLY_PATIENCE_S = 10.0
_CHUNK_BYTES = 65_536


def _ask_total(port: int) -> int:
    """How many requests the server knows of."""
    with connect(port) as connection, connection.makefile("r") as replies:
        connection.settimeout(CONNECT_PATIENCE_S)
        connection.sendall(b"TOTAL\n")
        words = replies.readline().split()
    if len(words) != 3:
        raise ValueError(f"reply {words}")
    return int(words[1])


class Load:
    """The loop."""

    def __init__(
        self,
        port: int,
        clients: int,
        pace_s: float,
        history: LoadHistory | None = None,
        *,
        pipeline: int = 1,
        steady: bool = False,
    ) -> None:
        self.verdict = Verdict()
        self._history = history
        self._port = port
        self._pace_s = pace_s
        self._steady = steady
        self._clients = [
            Client(number, port, self.verdict, history, pipeline=pipeline) for number in range(1, clients + 1)
        ]
        self._due = [(time.monotonic() + random.uniform(0.0, pace_s), index) for index in range(clients)]
        heapq.heapify(self._due)
        self._was_due_s = [0.0] * clients
        self._orders = b""
        self._stopping = False

    def run(self) -> None:
        epoll = select.epoll()
        epoll.register(sys.stdin.fileno(), select.EPOLLIN)
        by_fd = {client.connection.fileno(): index for index, client in enumerate(self._clients)}
        for fd in by_fd:
            epoll.register(fd, select.EPOLLIN)
        print(json.dumps({"clients": len(by_fd)}), flush=True)
        while not self._stopping:
            for fd, _ in epoll.poll(self._send_due()):
                if fd == sys.stdin.fileno():
                    self._take_orders()
                else:
                    self._on_readable(by_fd[fd])
        epoll.close()

    def _on_readable(self, index: int) -> None:
        client = self._clients[index]
        was_waiting = client.waiting
        client.receive()
        if was_waiting and not client.waiting and client.open:
            heapq.heappush(self._due, (self._next_s(index), index))

    def _next_s(self, index: int) -> float:
        """When a client sends again: so long after its reply, or after the moment at which its last request
        was due. Clients that all waited equally long would march in step, and each would meet all others."""
        since_s = self._was_due_s[index] if self._steady else time.monotonic()
        return since_s + random.uniform(0.5, 1.5) * self._pace_s

    def _send_due(self) -> float:
        """Send what is due; returns how long to wait for the next, in seconds."""
        while self._due and self._due[0][0] <= time.monotonic():
            due_s, index = heapq.heappop(self._due)
            self._was_due_s[index] = due_s
            client = self._clients[index]
            if client.open:
                client.send()
        return min(0.1, max(0.0, self._due[0][0] - time.monotonic())) if self._due else 0.1

    def _take_orders(self) -> None:
        chunk = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
        if not chunk:
            self._stopping = True  # whoever gave the orders is gone
            return
        *lines, self._orders = (self._orders + chunk).split(b"\n")
        for line in lines:
            print(json.dumps(self._obey(json.loads(line))), flush=True)

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "gap":
            return self._gap(order["kill_ns"], order.get("view_ns"))
        if order["do"] == "waits":
            return {"ms": self._waits_ms(order["from_ns"], order["to_ns"])}
        if order["do"] == "stop":
            self._stopping = True
            self._finish()
            return {**self.verdict.as_object(), "latency_ms": percentiles(self._waits_ms())}
        return self.verdict.as_object()

    def _waits_ms(self, from_ns: int = 0, to_ns: int = 1 << 63) -> list[float]:
        """Of all requests, those that met a kill among them; or of those that were answered in a while."""
        waits = []
        for client in self._clients:
            first, last = bisect_right(client.replied_ns, from_ns), bisect_right(client.replied_ns, to_ns)
            pairs = zip(client.sent_ns[first:last], client.replied_ns[first:last], strict=True)
            waits += [(replied_ns - sent_ns) / 1e6 for sent_ns, replied_ns in pairs]
        return waits

    def _gap(self, kill_ns: int, view_ns: int | None) -> dict[str, Any]:
        waits = [client.longest_wait_ns(kill_ns) for client in self._clients]
        settled = [wait for wait in waits if wait is not None]
        if len(settled) < len(waits) or time.monotonic_ns() < kill_ns + AROUND_NS:
            return {"pending": True}
        found: dict[str, Any] = {"gap_ms": max(settled, default=0) / 1e6}
        if view_ns is not None:
            firsts = [
                client.replied_ns[index]
                for client in self._clients
                if (index := bisect_right(client.replied_ns, view_ns)) < len(client.replied_ns)
            ]
            found["first_reply_ms"] = (min(firsts) - view_ns) / 1e6 if firsts else None
        return found

    def _finish(self) -> None:
        """The last replies, then the server's own account of everything."""
        deadline_s = time.monotonic() + LAST_REPLY_PATIENCE_S
        while (
            waiting := [c for c in self._clients if c.waiting and c.open]
        ) and time.monotonic() < deadline_s:
            ready, _, _ = select.select([client.connection for client in waiting], [], [], 0.1)
            for client in waiting:
                if client.connection in ready:
                    client.receive()
        for client in self._clients:
            client.note_unanswered()
        if self._history is not None:
            self._history.close()
        unanswered = sum(client.waiting for client in self._clients)
        self.verdict.lost += unanswered
        if unanswered:
            self.verdict.complain(f"{unanswered} requests were never answered")
        self._audit(unanswered)

    def _audit(self, unanswered: int) -> None:
        try:
            done = _ask_total(self._port)
        except (OSError, ValueError) as error:
            self.verdict.broken += 1
            self.verdict.complain(f"the server cannot be asked for its total: {error}")
            return
        if done > self.verdict.requests:
            self.verdict.duplicated += done - self.verdict.requests
            self.verdict.complain(f"the server did {done} requests, {self.verdict.requests} were sent")
        if done < self.verdict.requests - unanswered:
            self.verdict.lost += self.verdict.requests - unanswered - done
            self.verdict.complain(f"the server knows of {done} requests")


def main() -> None:
    parser = argparse.ArgumentParser(description="Load for the demonstration's server.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pace-ms", type=float, default=1.0)
    parser.add_argument("--pipeline", type=int, default=1, help="requests of a client that are sent at once")
    parser.add_argument("--steady", action="store_true", help="so many requests, however long replies take")
    parser.add_argument("--history", help="the journal to write the clients' calls to")
    parser.add_argument("--group-id", type=int, default=0, help="of the group that is called")
    arguments = parser.parse_args()
    history = LoadHistory(arguments.history, arguments.group_id) if arguments.history else None
    pace_s = arguments.pace_ms / 1000
    Load(
        arguments.port,
        arguments.clients,
        pace_s,
        history,
        pipeline=arguments.pipeline,
        steady=arguments.steady,
    ).run()


if __name__ == "__main__":
    main()
