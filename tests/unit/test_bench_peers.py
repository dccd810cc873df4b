"""The workload of peers on a store that is a table: a gap is seen, and so is a value that was lost."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from llft.cli.measure.catalogue import STORES as NAMES
from llft.cli.measure.peers import workload
from llft.cli.measure.peers.figure import STORES
from llft.cli.measure.peers.redis_store import RedisSession
from llft.cli.measure.peers.workload import gap_and_lost, latencies_us, rate
from llft.cli.measure.programs import asking_client, kv_server

ABSENCE_S = 0.1


class TableStore:
    """After the kill nobody answers for a while. `forgets`: it then knows less than it confirmed."""

    def __init__(self, *, forgets: int = 0) -> None:
        self.values: dict[str, str] = {}
        self._forgets = forgets
        self._back_s = 0.0

    def connect(self) -> TableStore:
        return self

    def kill_primary(self) -> None:
        self._back_s = time.monotonic() + ABSENCE_S

    def set(self, key: str, value: str) -> None:
        if time.monotonic() < self._back_s:
            raise ConnectionResetError("nobody is primary")
        time.sleep(0.001)
        self.values[key] = value

    def get(self, key: str) -> str:
        return str(int(self.values[key]) - self._forgets)

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture(autouse=True)
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "SETTLING_S", 0.15)


@pytest.mark.parametrize("forgets", [0, 3])
def test_a_gap_is_measured_and_what_was_lost_is_counted(forgets: int) -> None:
    gap_ms, lost = gap_and_lost(TableStore(forgets=forgets))
    assert gap_ms > ABSENCE_S * 900, "a write that is under way at the kill is confirmed just behind it"
    assert lost == forgets


def test_latency_and_throughput() -> None:
    times_us = latencies_us(TableStore(), 0.05)
    assert times_us
    assert min(times_us) >= 1000
    assert 0 < rate(TableStore(), 2, 0.05) < 2 * 1000


def test_a_client_that_is_a_group_writes_numbers_and_knows_the_longest_gap() -> None:
    """The program that is run as one."""
    with kv_server.Server(("127.0.0.1", 0), kv_server.Conversation) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        client = asking_client.Client()
        client.obey({"do": "connect", "port": server.server_address[1], "connections": 1})
        wrote = client.obey({"do": "numbers", "seconds": 0.05})
        known = client.obey({"do": "reply", "request": {"text": "GET number\n", "reply": "line"}})
        client.obey({"do": "connect", "port": server.server_address[1], "connections": 0})
        server.shutdown()
        thread.join()
    assert wrote["confirmed"] > 10
    assert int(known["reply"]) == wrote["confirmed"]
    assert 0 < wrote["gap_ms"] < 50


def test_every_store_of_the_command_line_is_there() -> None:
    assert set(NAMES) == set(STORES)


def test_a_redis_write_that_no_replica_has_is_not_confirmed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for replies in (b"+OK\r\n:1\r\n", b"+OK\r\n:0\r\n", b"$2\r\nv1\r\n", b"-READONLY no\r\n"):
                    connection.recv(4096)
                    connection.sendall(replies)

        thread = threading.Thread(target=serve)
        thread.start()
        session = RedisSession(listener.getsockname()[1])
        session.set("key", "v1")
        with pytest.raises(ConnectionAbortedError):
            session.set("key", "v2")
        assert session.get("key") == "v1"
        with pytest.raises(ConnectionAbortedError, match="READONLY"):
            session.ask("SET", "key", "v3")
        session.close()
        thread.join()
