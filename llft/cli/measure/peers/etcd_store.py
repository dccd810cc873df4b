"""etcd, three nodes on loopback, by its JSON gateway."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llft.cli.free_port import free_port
from llft.cli.measure.peers.store import ANSWER_PATIENCE_S, Nodes, nodes_in, until
from llft.errors import MisuseError

HEARTBEAT_MS, ELECTION_MS = 20, 200
"""As short as it bears: its own are 100 and 1000."""


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


class EtcdSession:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_PATIENCE_S)
        self._connection.connect()
        self._connection.auto_open = 0

    def ask(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        try:
            self._connection.request("POST", path, json.dumps(content))
            response = self._connection.getresponse()
            body = response.read()
        except http.client.HTTPException as error:
            raise ConnectionResetError(str(error)) from None
        if response.status != 200:
            raise ConnectionAbortedError(body.decode(errors="replace"))
        answer: dict[str, Any] = json.loads(body)
        return answer

    def set(self, key: str, value: str) -> None:
        self.ask("/v3/kv/put", {"key": encoded(key), "value": encoded(value)})

    def get(self, key: str) -> str:
        found = self.ask("/v3/kv/range", {"key": encoded(key)}).get("kvs", [])
        return b64decode(found[0]["value"]).decode() if found else "-"

    def close(self) -> None:
        self._connection.close()


class EtcdStore:
    def __init__(self, nodes: Nodes, ports: list[tuple[int, int]]) -> None:
        """`ports`: of each node, for clients and for the others."""
        self._nodes = nodes
        members = ",".join(f"n{peer}=http://127.0.0.1:{peer}" for _, peer in ports)
        self._servers = {client: self._start(client, peer, members) for client, peer in ports}

    def _start(self, client: int, peer: int, members: str) -> subprocess.Popen[bytes]:
        command = ["etcd", "--name", f"n{peer}", "--data-dir", str(self._nodes.directory / f"n{peer}")]
        for option in ("--listen-client-urls", "--advertise-client-urls"):
            command += [option, f"http://127.0.0.1:{client}"]
        for option in ("--listen-peer-urls", "--initial-advertise-peer-urls"):
            command += [option, f"http://127.0.0.1:{peer}"]
        command += ["--initial-cluster", members, "--initial-cluster-state", "new"]
        command += ["--heartbeat-interval", str(HEARTBEAT_MS), "--election-timeout", str(ELECTION_MS)]
        return self._nodes.start(command)

    def _leader(self) -> int:
        """Its port for clients. OSError: nobody knows one."""
        for port in self._living():
            try:
                session = EtcdSession(port)
                status = session.ask("/v3/maintenance/status", {})
                session.close()
            except OSError:
                continue
            if status.get("leader") == status["header"]["member_id"]:
                return port
        raise ConnectionRefusedError("there is no leader")

    def _living(self) -> list[int]:
        return [port for port, process in self._servers.items() if process.poll() is None]

    def is_ready(self) -> bool:
        for port in self._servers:
            EtcdSession(port).close()
        return bool(self._leader())

    def connect(self) -> EtcdSession:
        return EtcdSession(self._leader())

    def kill_primary(self) -> None:
        self._nodes.kill(self._servers[self._leader()])


@contextmanager
def started(directory: Path) -> Iterator[EtcdStore]:
    if shutil.which("etcd") is None:
        raise MisuseError("no-etcd", "install etcd-server")
    with nodes_in(directory) as nodes:
        store = EtcdStore(nodes, [(free_port(), free_port()) for _ in range(3)])
        until("become-ready", store.is_ready)
        yield store
