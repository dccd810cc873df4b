"""Redis with two replicas, each write followed by WAIT for one of them, and three Sentinels."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llft.cli.free_port import free_port
from llft.cli.measure.peers.store import ANSWER_PATIENCE_S, Nodes, nodes_in, until
from llft.errors import MisuseError

DOWN_AFTER_MS = 500
FAILOVER_TIMEOUT_MS = 2000
WAIT_MS = 1000


class RedisSession:
    """As much of its protocol as is needed."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_PATIENCE_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._connection.makefile("rb")

    def ask(self, *words: str) -> Any:
        return self._ask_all([words])[0]

    def _ask_all(self, commands: list[tuple[str, ...]]) -> list[Any]:
        """In one packet."""
        packed = [
            f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            for words in commands
        ]
        self._connection.sendall("".join(packed).encode())
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        line = self._file.readline().rstrip()
        kind, rest = line[:1], line[1:].decode()
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self._file.read(int(rest) + 2)[:-2].decode() if int(rest) >= 0 else None
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise ConnectionAbortedError(rest or "the server closed the connection")

    def set(self, key: str, value: str) -> None:
        _, copies = self._ask_all([("SET", key, value), ("WAIT", "1", str(WAIT_MS))])
        if copies < 1:
            raise ConnectionAbortedError("no replica has it")

    def get(self, key: str) -> str:
        return str(self.ask("GET", key))

    def close(self) -> None:
        self._file.close()
        self._connection.close()


class RedisStore:
    def __init__(self, nodes: Nodes, ports: list[int], sentinels: list[int]) -> None:
        self._nodes = nodes
        self._sentinels = sentinels
        self._servers = {port: self._start(port, ports[0]) for port in ports}
        for port in sentinels:
            self._start_sentinel(port, ports[0])

    def _start(self, port: int, primary: int) -> subprocess.Popen[bytes]:
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--repl-diskless-sync-delay", "0", "--dir", str(self._nodes.directory)]
        command += ["--replicaof", "127.0.0.1", str(primary)] if port != primary else []
        return self._nodes.start(command)

    def _start_sentinel(self, port: int, primary: int) -> None:
        settings = self._nodes.directory / f"sentinel-{port}.conf"
        settings.write_text(
            f"port {port}\nbind 127.0.0.1\nsentinel monitor store 127.0.0.1 {primary} 2\n"
            f"sentinel down-after-milliseconds store {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout store {FAILOVER_TIMEOUT_MS}\n"
        )
        self._nodes.start(["redis-server", str(settings), "--sentinel"])

    def is_ready(self) -> bool:
        """Two replicas follow, and every Sentinel knows of both and of the other Sentinels."""
        session = RedisSession(self._primary())
        ready = session.ask("WAIT", "2", "100") == 2
        session.close()
        return ready and all(self._knows_all(port) for port in self._sentinels)

    @staticmethod
    def _knows_all(sentinel: int) -> bool:
        session = RedisSession(sentinel)
        replicas, others = (session.ask("SENTINEL", what, "store") for what in ("replicas", "sentinels"))
        session.close()
        return len(replicas) == 2 and len(others) == 2

    def _primary(self) -> int:
        session = RedisSession(self._sentinels[0])
        _, port = session.ask("SENTINEL", "get-master-addr-by-name", "store")
        session.close()
        return int(port)

    def connect(self) -> RedisSession:
        return RedisSession(self._primary())

    def kill_primary(self) -> None:
        self._nodes.kill(self._servers[self._primary()])


@contextmanager
def started(directory: Path) -> Iterator[RedisStore]:
    if shutil.which("redis-server") is None:
        raise MisuseError("no-redis", "install redis-server")
    with nodes_in(directory) as nodes:
        store = RedisStore(nodes, [free_port() for _ in range(3)], [free_port() for _ in range(3)])
        until("become-ready", store.is_ready)
        yield store
