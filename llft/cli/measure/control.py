"""Orders for the asking client, wherever it runs: a line of JSON each way."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from llft.cli.group_run import TrialFailure

CONNECT_PATIENCE_S = 30.0
ANSWER_PATIENCE_S = 120.0
PAUSE_S = 0.05


class Control:
    def __init__(self, port: int) -> None:
        self._connection = connected(port)
        self._connection.settimeout(ANSWER_PATIENCE_S)
        self._lines = self._connection.makefile("rw")

    def order(self, **order: Any) -> dict[str, Any]:
        """TrialFailure: it cannot, or it found a reply wrong."""
        try:
            self._lines.write(json.dumps(order) + "\n")
            self._lines.flush()
            line = self._lines.readline()
        except OSError as error:
            raise TrialFailure("client-silent", str(error), order=order["do"]) from None
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it ended"}
        if "error" in answer:
            raise TrialFailure("client-failed", answer["error"], order=order["do"])
        return answer

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


def connected(port: int, host: str = "127.0.0.1") -> socket.socket:
    """To a program that may be starting yet."""
    deadline_s = time.monotonic() + CONNECT_PATIENCE_S
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError as error:
            if time.monotonic() > deadline_s:
                raise TrialFailure("nobody-listens", str(error), port=port) from None
            time.sleep(PAUSE_S)
