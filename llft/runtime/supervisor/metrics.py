"""Prometheus: the state of groups as text, and a port that serves it while `llft run` runs.

The numbers are those of `llft status --json`; nothing is counted here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llft.errors import MisuseError

CLIENT_LIMIT = 16
REQUEST_LIMIT_BYTES = 8192

GAUGES: tuple[tuple[str, str, str], ...] = (
    ("rank", "llft_replica_rank", "Rank in the membership; 1 is the primary."),
    ("precedence", "llft_replica_precedence", "Precedence in the membership."),
    ("performed", "llft_replica_performed_operations", "Operations recorded or reproduced."),
    ("order_end", "llft_replica_order_end", "Length of the order information held."),
    ("lag", "llft_replica_lag", "How far behind the order information the replica is."),
    ("log_bytes", "llft_replica_birth_log_bytes", "Length of the birth log."),
    ("uptime_s", "llft_replica_uptime_seconds", "Age of the process life."),
)

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def prometheus_text(groups: Iterable[Mapping[str, Any]]) -> str:
    """The text format, of groups as in `llft status --json`."""
    groups = list(groups)
    members = [(group["group"], member) for group in groups for member in group["members"]]
    lines: list[str] = []
    for field, name, explanation in GAUGES:
        samples = [(_labels(group, member), member.get(field)) for group, member in members]
        lines += _family(name, explanation, samples)
    is_primary = [(_labels(group, member), int(member.get("role") == "primary")) for group, member in members]
    lines += _family("llft_replica_is_primary", "1 at the primary.", is_primary)
    lives = [(_labels(group, member), member.get("lives")) for group, member in members]
    lines += _family("llft_replica_lives", "Processes started in this place.", lives)
    suspicions = [
        (f'{_labels(group, member)},reason="{reason}"', count)
        for group, member in members
        for reason, count in (member.get("suspicions") or {}).items()
    ]
    lines += _family("llft_replica_suspicions", "Members suspected, by reason.", suspicions)
    return "\n".join(lines) + "\n"


def _labels(group: str, member: Mapping[str, Any]) -> str:
    return f'group="{group.translate(_ESCAPES)}",replica="{member["replica"]}"'


def _family(name: str, explanation: str, samples: list[tuple[str, Any]]) -> list[str]:
    known = [(labels, value) for labels, value in samples if isinstance(value, int | float)]
    if not known:
        return []
    head = [f"# HELP {name} {explanation}", f"# TYPE {name} gauge"]
    return head + [f"{name}{{{labels}}} {value}" for labels, value in known]


class MetricsServer:
    """As much of HTTP as a scraper needs. `work` does what is ready and returns at once."""

    def __init__(self, port: int, render: Callable[[], str]) -> None:
        self._render = render
        self._clients: dict[int, tuple[socket.socket, bytearray]] = {}
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            self._listener.close()
            remedy = "choose another port with --metrics"
            raise MisuseError("metrics-port-unusable", remedy, port=port, why=str(error)) from None
        self._listener.listen(CLIENT_LIMIT)
        self._listener.setblocking(False)

    def filenos(self) -> tuple[int, ...]:
        return (self._listener.fileno(), *self._clients)

    def work(self) -> None:
        self._accept()
        for fd, (client, request) in list(self._clients.items()):
            try:
                done = self._serve(client, request)
            except BlockingIOError:
                continue
            except OSError:
                done = True
            if done:
                del self._clients[fd]
                client.close()

    def close(self) -> None:
        for client, _ in self._clients.values():
            client.close()
        self._clients.clear()
        self._listener.close()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # nobody, or one who has gone again
        client.setblocking(False)
        if len(self._clients) >= CLIENT_LIMIT:
            oldest, _ = self._clients.pop(next(iter(self._clients)))
            oldest.close()
        self._clients[client.fileno()] = (client, bytearray())

    def _serve(self, client: socket.socket, request: bytearray) -> bool:
        """True: it is done with."""
        chunk = client.recv(REQUEST_LIMIT_BYTES)
        request += chunk
        if b"\r\n\r\n" in request:
            body = self._render().encode()
            kind = "Content-Type: text/plain; version=0.0.4"
            head = f"HTTP/1.0 200 OK\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            # Far shorter than a socket's buffer; a scraper that cannot take it asks again.
            client.send(head.encode() + body)
            return True
        return not chunk or len(request) > REQUEST_LIMIT_BYTES
