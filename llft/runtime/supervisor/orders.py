"""What may be asked of a supervisor through its control socket: status, add, remove, kill, stop."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, Protocol

from llft.errors import MisuseError
from llft.runtime.supervisor.slot import Slot

REPLICA_LIMIT = 16


class Supervising(Protocol):
    """The supervisor as orders see it."""

    replicas: dict[int, Slot]
    gateway: Slot

    def group(self) -> dict[str, Any]: ...
    def add(self) -> Slot: ...
    def remove(self, slot: Slot) -> None: ...
    def stop(self) -> None: ...


def orders_of(supervisor: Supervising) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """The handlers, by the name of what is to be done."""

    def add(_: dict[str, Any]) -> dict[str, Any]:
        if len(supervisor.replicas) >= REPLICA_LIMIT:
            raise MisuseError("too-many-replicas", "remove one first", limit=REPLICA_LIMIT)
        slot = supervisor.add()
        return {"replica": slot.number, "pid": slot.pid}

    def remove(request: dict[str, Any]) -> dict[str, Any]:
        slot = _named(supervisor, request)
        if sum(not other.removed for other in supervisor.replicas.values()) < 2:
            raise MisuseError("last-replica", "end the run instead, by Ctrl-C", replica=slot.number)
        supervisor.remove(slot)
        return {"replica": slot.number}

    def kill(request: dict[str, Any]) -> dict[str, Any]:
        slot = _named(supervisor, request)
        if slot.pid is None:
            raise MisuseError("no-process", "it is being restarted; see llft status", who=slot.title)
        pid = slot.pid
        slot.signal(signal_number(str(request.get("signal", "KILL"))))
        return {"pid": pid}

    def stop(_: dict[str, Any]) -> dict[str, Any]:
        supervisor.stop()
        return {}

    return {"status": lambda _: supervisor.group(), "add": add, "remove": remove, "kill": kill, "stop": stop}


def _named(supervisor: Supervising, request: dict[str, Any]) -> Slot:
    if request.get("gateway"):
        return supervisor.gateway
    number = request.get("replica")
    slot = supervisor.replicas.get(number) if isinstance(number, int) else None
    if slot is None:
        raise MisuseError(
            "no-such-replica", "see llft status", replica=number, known=list(supervisor.replicas)
        )
    return slot


def signal_number(name: str) -> int:
    """Of "KILL", "SIGKILL" or "9"."""
    if name.isdecimal() and int(name) in [known.value for known in signal.Signals]:
        return int(name)
    try:
        return signal.Signals["SIG" + name.upper().removeprefix("SIG")].value
    except KeyError:
        raise MisuseError("unknown-signal", "such as KILL, STOP, CONT, TERM", signal=name) from None
