"""A stand-in for replica and gateway processes that speaks the control protocol and nothing else.

The primary is who holds a lock in the run directory; the kernel gives it to another when its holder dies. A
process that may not found the group becomes a backup only if somebody is the primary, as a joiner would.
What else it does is the program's first word: serve, crash, crash-later, end, useless.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from llft.runtime.control_server import ControlServer

SPEC = json.loads(os.environ["LLFT_SPEC"])
DIRECTORY = Path(SPEC["run_directory"])
STARTED_S = time.monotonic()
JOIN_S = 0.05
LATER_S = 0.3
CRASH_S = 2.2


class StubReplica:
    def __init__(self) -> None:
        self._lock_fd = os.open(DIRECTORY / "primary.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self.role = "joining"
        self.leaves = False
        self.founds = SPEC["alone"]
        program = SPEC["program"]
        self.behaviour = program[1]
        self.listening = [["127.0.0.1", int(program[2])]] if len(program) > 2 else []
        self.handlers = {
            "status": self._status,
            "leave": self._leave,
            "switch": self._switch,
            "stop": self._leave,
        }

    def turn(self) -> None:
        age_s = time.monotonic() - STARTED_S
        if self.behaviour == "crash" or (self.behaviour == "crash-later" and age_s > CRASH_S):
            sys.exit("the stub was told to crash")
        if self.behaviour == "useless":
            sys.exit(78)
        if self.behaviour == "end" and self.role == "primary" and age_s > LATER_S:
            sys.exit(0)
        if self.leaves:
            sys.exit(0)
        self._seek_role(age_s)

    def _seek_role(self, age_s: float) -> None:
        if self.role == "primary":
            return
        free = self._try_lock()
        if free and (self.founds or self.role == "backup"):
            self.role = "primary"
        elif free:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        elif self.role == "joining" and age_s > JOIN_S:
            self.role = "backup"

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _leave(self, request: dict[str, Any]) -> dict[str, Any]:
        self.leaves = True
        return {}

    def _switch(self, request: dict[str, Any]) -> dict[str, Any]:
        fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        self.role, self.founds = "joining", False
        return {}

    def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "group": SPEC["group"],
            "replica": SPEC["replica"],
            "pid": os.getpid(),
            "birth": f"1.{os.getpid()}.7",
            "role": self.role,
            "has_state": self.role != "joining",
            "view": "v1/p1",
            "precedence": SPEC["replica"],
            "rank": 1 if self.role == "primary" else 2,
            "members": [],
            "performed": 10,
            "order_end": 12,
            "lag": 0 if self.role == "primary" else 2,
            "suspicions": {"timeout": 0, "certificate": 1},
            "listening": self.listening,
            "log_bytes": 100,
            "transport": {},
            "uptime_s": time.monotonic() - STARTED_S,
            "views": [],
            "alone": SPEC["alone"],
        }


class StubGateway:
    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], socket.socket] = {}
        self.handlers = {"status": lambda _: {"open": 0}, "listen": self._listen, "unlisten": self._unlisten}

    def turn(self) -> None:
        return

    def _listen(self, request: dict[str, Any]) -> dict[str, Any]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        address = (request["host"], request["port"])
        try:
            listener.bind(address)
            listener.listen()
        except OSError:
            listener.close()
            raise
        self._listeners[address] = listener
        return {}

    def _unlisten(self, request: dict[str, Any]) -> dict[str, Any]:
        self._listeners.pop((request["host"], request["port"])).close()
        return {}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    if SPEC.get("program", ["", ""])[1] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stub = StubReplica() if "replica" in SPEC else StubGateway()
    name = f"replica-{SPEC['replica']}" if "replica" in SPEC else f"gateway-{SPEC['gateway']}"
    control = ControlServer(str(DIRECTORY / f"{name}.sock"), stub.handlers)
    print("stub: started", flush=True)
    while True:
        control.work()
        stub.turn()
        time.sleep(0.005)


if __name__ == "__main__":
    main()
