"""A thread of the program: its gate, and the result that it waits for (`application` has the laws)."""

from __future__ import annotations

from _thread import LockType
from collections.abc import Callable
from typing import Any

from llft import originals
from llft.core.determinizer.operations import Operation, Result
from llft.identifiers import ThreadId

native: Any
try:
    from llft import reading_on
except ImportError:
    native = None
else:
    native = reading_on


def closed_gate() -> LockType:
    gate: LockType = originals.allocate_lock() if native is None else native.Gate()
    if native is None:
        gate.acquire()
    return gate


class ApplicationThread:
    __slots__ = (
        "function",
        "gate",
        "given",
        "ident",
        "kind",
        "number",
        "operation",
        "out_since_ns",
        "result",
        "spawned_count",
        "told_ns",
        "waits",
    )

    def __init__(self, number: ThreadId, function: Callable[[], None] | None) -> None:
        self.number = number
        self.function = function
        self.gate = closed_gate()
        self.given = False
        self.result: Result = None
        self.kind = 0
        self.operation: Operation | None = None
        """Its last call, which it makes once more if the group is to go on without those who knew of it."""
        self.ident = 0
        self.spawned_count = 0
        self.out_since_ns = 0
        self.told_ns = 0
        """Since when it was out when people were told that it is out for long."""
        self.waits = False
        """Its last call was made, and its result comes through the gate."""

    def wait(self) -> None:
        """Until another thread gives a result. Not for one that was given by the waiting thread itself."""
        self.gate.acquire()

    def take(self) -> Result:
        self.given = False
        return self.result
