"""The non-deterministic operations of an application, as values.

Each has an operation identifier O (paper, determinizer figure, line 24): the data item that may
change. Connections are named by the file descriptor number that connect or accept gave,
a counter that all replicas advance alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from llft.identifiers import GroupId, ThreadId

PASSING_MUTEX: Final = 65_536
"""From this number on mutexes may come and go: nothing is kept of one that is free."""


class Claim(NamedTuple):
    """pthread_mutex_lock: returns True once the mutex is held. pthread_mutex_timedlock: False if the time
    passed first; ordered mode only. A negative timeout never passes."""

    mutex: int
    timeout_ns: int = -1


class TryClaim(NamedTuple):
    """pthread_mutex_trylock: True or False, at once."""

    mutex: int


class Release(NamedTuple):
    """pthread_mutex_unlock: returns True."""

    mutex: int


class ReadClock(NamedTuple):
    """gettimeofday and its kin: nanoseconds of the group clock."""

    clock_id: int = 0


class RandomBytes(NamedTuple):
    """getrandom: `size` bytes that every replica gets alike."""

    size: int


class Yield(NamedTuple):
    """A check point: another thread may run. Returns None."""


class Sleep(NamedTuple):
    """Waits on real time (D-18); returns None."""

    duration_ns: int


class Park(NamedTuple):
    """Waits for an Unpark: True; False if the time passed first. A negative timeout never passes.

    Under the token an Unpark of a thread that is not parked is not remembered: whoever parks looks first
    whether there is still reason to, and no other thread runs between the two. In ordered mode it is
    remembered (one *permit* a thread), and the next Park returns True at once, perhaps for nothing.
    """

    timeout_ns: int = -1


class Unpark(NamedTuple):
    """True if that thread was parked, in Park or in an interruptible Select, and now is not.

    One that its own timeout has woken already is not parked. A Select that something has woken, but
    that has not returned yet, is: it might find nothing and wait again, and the news would be lost.
    """

    thread: ThreadId


class Obtain(NamedTuple):
    """What `produce()` gives at the primary, at most 65,535 bytes, at all replicas.

    It is called inside the step, once, by a primary only: it must not raise (errors belong into the
    bytes), nor call the core. `name` says at a backup what is obtained, so that it notices another one.
    A checkpoint cannot hold a function: a thread that waits in Obtain is captured as one that is
    out, and invokes again where it is restored (`Determinizer.is_out` says who is).
    """

    name: str
    produce: Callable[[], bytes]


class Spawn(NamedTuple):
    """Starts a thread; returns its number. `argument` is the program's own business."""

    argument: Any


class Connect(NamedTuple):
    """Opens a connection to a group; returns its fd, or a Failure.

    If not blocking, the fd at once: it is writable when there is an outcome, which ConnectOutcome gives.
    """

    group_id: GroupId
    blocking: bool = True


class ConnectOutcome(NamedTuple):
    """What became of a Connect that did not block: True, IN_PROGRESS, or why it failed."""

    fd: int


class Accept(NamedTuple):
    """Takes the next connection that clients opened; returns (fd, client group id)."""

    blocking: bool = True


class Receive(NamedTuple):
    """Reads up to `limit` bytes (D-03); b"" at the end of the stream; or a Failure.

    A peek leaves them to be read again."""

    fd: int
    limit: int
    blocking: bool = True
    peek: bool = False


class Send(NamedTuple):
    """Writes one message; returns the number of bytes, or a Failure."""

    fd: int
    payload: bytes
    blocking: bool = True


class HalfClose(NamedTuple):
    """shutdown(SHUT_WR): the peer reads the end of the stream. Returns None."""

    fd: int


class Close(NamedTuple):
    """Closes the connection. Returns None."""

    fd: int


class Select(NamedTuple):
    """Waits until one of `fds` is readable (0: a connection can be accepted), one of `writing` is
    writable, or the timeout passes (0: does not wait; negative: never).

    Returns the tuple of the readable fds, then of the writable ones as -fd; empty on timeout. None,
    if it is interruptible and was unparked.
    """

    fds: tuple[int, ...]
    timeout_ns: int
    writing: tuple[int, ...] = ()
    interruptible: bool = False


class Failure(NamedTuple):
    """What an application is told instead of a result. `definite` (D-20): it did not happen;
    otherwise it may have happened."""

    name: str
    definite: bool = True


WOULD_BLOCK: Final = Failure("EAGAIN")
REFUSED: Final = Failure("ECONNREFUSED")
RESET: Final = Failure("ECONNRESET", definite=False)
BAD_DESCRIPTOR: Final = Failure("EBADF")
IN_PROGRESS: Final = Failure("EINPROGRESS")
NOT_CONNECTED: Final = Failure("ENOTCONN")

Operation = (
    Claim
    | TryClaim
    | Release
    | ReadClock
    | RandomBytes
    | Yield
    | Sleep
    | Park
    | Unpark
    | Obtain
    | Spawn
    | Connect
    | ConnectOutcome
    | Accept
    | Receive
    | Send
    | HalfClose
    | Close
    | Select
)

Result = None | bool | int | bytes | tuple[int, ...] | Failure
