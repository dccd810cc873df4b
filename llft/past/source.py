"""Where the state of a program can come from: one interface (docs/CHECKPOINTS.md, "Sources of state").

A source is asked at quiescent points, under the driver's lock. What it captures is in files of the run
directory when `Captured.ready` says so: an image is written by a child while the program goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

IMAGE, HOOKS, NONE = "image", "hooks", "none"


class NotCapturedError(Exception):
    """Not now, or not at all; the text says why. Never the replica's end."""


class RestoredError(BaseException):
    """Unwinds the thread that took an image, in a process that was restored from it: all is arranged, and
    what this thread was about to do is the other process's."""


class Captured(NamedTuple):
    path: str
    """Of the state's bytes."""
    position: int
    digest: int
    """Of the log up to there."""
    pause_ns: int
    """How long the program was kept from going on."""
    head_bytes: int = 0
    head_digest: int = 0
    ready: Callable[[], bool] = lambda: True
    """Whether the file is whole; NotCapturedError: it will never be."""


class Source(Protocol):
    name: str

    def obstacle(self) -> str:
        """ "": a checkpoint can be taken at this point; else why not."""

    def capture(self) -> Captured:
        """At a quiescent point. NotCapturedError."""


class Interposed(Protocol):
    """What a source needs of the interposition, which the runtime does not import."""

    def marks(self) -> Mapping[str, Any]:
        """Counts that decide when a thread yields, and what an object's hash is; plain values."""

    def adopt(self, marks: Mapping[str, Any]) -> None: ...

    def is_connected(self) -> bool:
        """Whether the program has a connection open, or one has come that it has not accepted."""

    def descriptors(self) -> list[str]:
        """Virtual descriptors that are open, with what they are."""

    def has_begun(self) -> bool:
        """The program's main module is there, and has come to where it waits."""

    def leave_out(self, prefix: str) -> None:
        """Files whose paths begin so are the runtime's."""

    def outside_state(self) -> str:
        """What of the program's state is outside its memory, if anything; "": nothing."""

    def remake(self, temporary: str) -> None:
        """In a process restored from an image: descriptors of the interposition's own."""

    def main(self) -> Any:
        """The program's main module; None before it is there."""
