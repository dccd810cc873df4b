"""The workload of all stores: writes of 1 KB, one client and then several; then the primary is killed.

Here the clients are plain ones; `group_client` has those that are a group themselves.

*The gap* is the longest that a client, which writes one value after the other and makes a new connection
when it must, waited from one confirmation to the next. *Lost* are values that were confirmed, and of which
the store knows nothing afterwards.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from llft.cli.group_run import TrialFailure
from llft.cli.measure.comparison import Manner
from llft.cli.measure.peers.store import PAUSE_S, Cluster, Session

VALUE = "v" * 1024
SETTLING_S = 0.5
GAP_PATIENCE_S = 20.0
RETRY_PAUSE_S = 0.002


class Workload(Protocol):
    """Of one cluster."""

    def latencies_us(self, seconds: float) -> list[float]: ...

    def rate(self, clients: int, seconds: float) -> float: ...

    def gap_and_lost(self) -> tuple[float, int]: ...


class PlainClients:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def latencies_us(self, seconds: float) -> list[float]:
        return latencies_us(self._cluster, seconds)

    def rate(self, clients: int, seconds: float) -> float:
        return rate(self._cluster, clients, seconds)

    def gap_and_lost(self) -> tuple[float, int]:
        return gap_and_lost(self._cluster)


Start = Callable[[Path, Manner], AbstractContextManager[Workload]]


def with_plain_clients(started: Callable[[Path], AbstractContextManager[Cluster]]) -> Start:
    @contextmanager
    def start(directory: Path, manner: Manner) -> Iterator[Workload]:
        with started(directory) as cluster:
            yield PlainClients(cluster)

    return start


def latencies_us(cluster: Cluster, seconds: float) -> list[float]:
    session = cluster.connect()
    found = []
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        began_ns = time.perf_counter_ns()
        session.set("key", VALUE)
        found.append((time.perf_counter_ns() - began_ns) / 1000)
    session.close()
    return found


def rate(cluster: Cluster, clients: int, seconds: float) -> float:
    """Writes per second of all of them together."""
    sessions = [cluster.connect() for _ in range(clients)]
    counts = [0] * clients
    ended = threading.Event()

    def write(index: int, session: Session) -> None:
        while not ended.is_set():
            session.set(f"key{index}", VALUE)
            counts[index] += 1

    threads = [threading.Thread(target=write, args=each) for each in enumerate(sessions)]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    ended.set()
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - began_s
    for session in sessions:
        session.close()
    return sum(counts) / took_s


class Writer:
    """Writes numbers to a key, one after the other, whatever becomes of its connection."""

    def __init__(self, connect: Callable[[], Session]) -> None:
        self._connect = connect
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_on)
        self.confirmed_ns: list[int] = []
        self._thread.start()

    def _write_on(self) -> None:
        session: Session | None = None
        while not self._ended.is_set():
            try:
                session = session or self._connect()
                session.set("number", str(len(self.confirmed_ns) + 1))
            except OSError:
                if session is not None:
                    session.close()
                session = None
                time.sleep(RETRY_PAUSE_S)
            else:
                self.confirmed_ns.append(time.monotonic_ns())
        if session is not None:
            session.close()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def gap_and_lost(cluster: Cluster) -> tuple[float, int]:
    """Milliseconds, and values."""
    writer = Writer(cluster.connect)
    try:
        time.sleep(SETTLING_S)
        cluster.kill_primary()
        kill_ns = time.monotonic_ns()
        _await_confirmations(writer, after_ns=kill_ns + int(SETTLING_S * 1e9))
    finally:
        writer.stop()
    moments = [ns for ns in writer.confirmed_ns if ns >= kill_ns - int(SETTLING_S * 1e9)]
    gap_ms = max(later - earlier for earlier, later in itertools.pairwise(moments)) / 1e6
    session = cluster.connect()
    known = int(session.get("number"))
    session.close()
    return gap_ms, max(0, len(writer.confirmed_ns) - known)


def _await_confirmations(writer: Writer, *, after_ns: int) -> None:
    deadline_s = time.monotonic() + GAP_PATIENCE_S
    while not writer.confirmed_ns or writer.confirmed_ns[-1] < after_ns:
        if time.monotonic() > deadline_s:
            raise TrialFailure("no-write-after-kill", "the store did not come back", seconds=GAP_PATIENCE_S)
        time.sleep(PAUSE_S)
