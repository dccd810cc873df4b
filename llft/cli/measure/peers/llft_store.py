"""A plain key-value server under `llft run`, behind its gateway."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llft.cli.free_port import free_port
from llft.cli.kill import send_signal
from llft.cli.measure.peers.store import LineSession
from llft.cli.measure.running import ReplicatedProgram, command_of, ending, start_group
from llft.cli.survey import require_primary

PATIENCE_S = 10.0
"""Its clients need no new connection, so they wait."""


class LlftStore:
    def __init__(self, port: int, program: ReplicatedProgram) -> None:
        self._port = port
        self._program = program

    def connect(self) -> LineSession:
        return LineSession(self._port, timeout_s=PATIENCE_S)

    def kill_primary(self) -> None:
        group = self._program.await_whole(listening=True)
        send_signal(require_primary(group)["pid"], signal.SIGKILL, parent=group["supervisor_pid"])


@contextmanager
def started(directory: Path) -> Iterator[LlftStore]:
    port = free_port()
    program = start_group("store", command_of("kv_server", port), replicas=3, outside=True)
    with ending(program):
        program.await_whole(listening=True)
        yield LlftStore(port, program)
