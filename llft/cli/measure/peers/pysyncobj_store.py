"""PySyncObj, three nodes, each the same Python program with a replicated dictionary."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llft.cli.free_port import free_port
from llft.cli.measure.peers.store import LineSession, Nodes, nodes_in, until
from llft.errors import MisuseError

NODE = Path(__file__).resolve().parents[4] / "bench" / "programs" / "pysyncobj_node.py"
"""In the source tree, and nowhere else: nothing of LLFT's own needs that library."""


class PySyncObjStore:
    def __init__(self, nodes: Nodes, ports: list[tuple[int, int]]) -> None:
        """`ports`: of each node, for clients and for the others."""
        self._nodes = nodes
        addresses = {client: f"127.0.0.1:{peer}" for client, peer in ports}
        self._clients = {address: client for client, address in addresses.items()}
        self._servers = {}
        for client, own in addresses.items():
            others = [address for address in addresses.values() if address != own]
            self._servers[client] = nodes.start([sys.executable, str(NODE), str(client), own, *others])

    def _leader(self) -> int:
        """Its port for clients. OSError: nobody knows one that lives."""
        for port, process in self._servers.items():
            if process.poll() is not None:
                continue
            try:
                session = LineSession(port)
                leader = self._clients.get(session.ask("LEADER"), 0)
                session.close()
            except OSError:
                continue
            if leader and self._servers[leader].poll() is None:
                return leader
        raise ConnectionRefusedError("there is no leader")

    def is_ready(self) -> bool:
        for port in self._servers:
            LineSession(port).close()
        return bool(self._leader())

    def connect(self) -> LineSession:
        return LineSession(self._leader())

    def kill_primary(self) -> None:
        self._nodes.kill(self._servers[self._leader()])


@contextmanager
def started(directory: Path) -> Iterator[PySyncObjStore]:
    if importlib.util.find_spec("pysyncobj") is None or not NODE.exists():
        raise MisuseError("no-pysyncobj", "pip install pysyncobj, and run it in a source tree")
    with nodes_in(directory) as nodes:
        store = PySyncObjStore(nodes, [(free_port(), free_port()) for _ in range(3)])
        until("become-ready", store.is_ready)
        yield store
