"""What the world knows of a core and of an application program: these protocols, no more.

The real ones are `llft.core.replica.Replica` and the programs of `llft.simulator.workloads`;
tests of the world put fakes in their place.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from llft.core import effects, events
from llft.core.determinizer.operations import Operation, Result
from llft.core.determinizer.outside import Stage
from llft.identifiers import Member, ViewId


class Program(Protocol):
    """An application as an explicit state machine, so that it can be captured between calls.

    `None` instead of an operation: the thread ended. Thread 1 is the main thread."""

    @property
    def finished(self) -> bool: ...
    def start_thread(self, thread: int, argument: object) -> Operation | None: ...
    def resume(self, thread: int, result: Result) -> Operation | None: ...
    def capture(self) -> bytes: ...
    def restore(self, state: bytes) -> None: ...


class Core(Protocol):
    """What the shell needs of `llft.core.replica.Replica`."""

    @property
    def role(self) -> str: ...
    @property
    def view(self) -> ViewId: ...
    @property
    def membership(self) -> tuple[Member, ...]: ...
    @property
    def has_state(self) -> bool: ...
    @property
    def executed(self) -> int: ...
    def step(self, event: events.Event, now_ns: int) -> list[effects.Effect]: ...
    def at_once(self, thread: int, operation: Operation, now_ns: int) -> Result | Literal[Stage.BLOCKED]: ...
    def drain(self) -> list[effects.Effect]:
        """What `at_once` has left to do."""

    def next_deadline(self) -> int: ...
    def statistics(self) -> dict[str, Any]: ...
