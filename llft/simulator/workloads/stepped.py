"""Programs as explicit state machines, so that they can be captured between any two calls.

A program is a set of *threads*. A thread is plain data: its local variables and the name of the
step that takes the result of the operation it waits for. A step is a method that takes the
thread and that result, and returns the next operation, or None when the thread has ended:

    def on_clock_read(self, thread, result):
        thread.clock_ns = result
        return thread.wait(self.on_drawn, RandomBytes(4))

Laws: a step touches data that threads share only while its thread holds the mutex of those data
(the racy variants break this on purpose, and run under the token only); a step depends on
nothing but the thread, the shared data and the result; nothing depends on the order of
`threads`, which differs between replicas when threads run in parallel.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from llft.core.determinizer.operations import Operation, Result

Outcome = tuple[int, Any]
"""A request id, and its Reply or the word for why there is none."""


class Program(Protocol):
    """What the simulated process asks of an application."""

    @property
    def finished(self) -> bool: ...

    @property
    def history(self) -> list[Outcome]: ...

    def start_thread(self, thread: int, argument: object) -> Operation | None: ...

    def resume(self, thread: int, result: Result) -> Operation | None: ...

    def capture(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


Step = Callable[[Any, Result], Operation | None]


@dataclass(slots=True)
class Thread:
    """The program counter; the programs add their local variables."""

    step: str = ""

    def wait(self, step: Step, operation: Operation) -> Operation:
        """Invokes `operation`; its result goes to `step`."""
        self.step = step.__name__
        return operation


ThreadType = TypeVar("ThreadType", bound=Thread)


class SteppedProgram(Generic[ThreadType]):
    """Runs threads step by step. Every attribute is plain data that pickle takes."""

    def __init__(self) -> None:
        self.threads: dict[int, ThreadType] = {}
        self.started = False
        self.malformed: list[str] = []
        """Bytes that no correct peer sends; the checkers report them."""

    def begin(self, argument: object) -> tuple[ThreadType, Operation | None]:
        """The new thread for this argument (None: the main thread), and its first operation."""
        raise NotImplementedError

    def start_thread(self, thread: int, argument: object) -> Operation | None:
        self.started = True
        state, operation = self.begin(argument)
        if operation is not None:
            self.threads[thread] = state
        return operation

    def resume(self, thread: int, result: Result) -> Operation | None:
        state = self.threads[thread]
        operation: Operation | None = getattr(self, state.step)(state, result)
        if operation is None:
            del self.threads[thread]
        return operation

    def capture(self) -> bytes:
        return pickle.dumps(self.__dict__, protocol=pickle.HIGHEST_PROTOCOL)

    def restore(self, state: bytes) -> None:
        self.__dict__ = pickle.loads(state)
