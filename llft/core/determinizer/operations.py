"""The non-deterministic operations of an application, as values.

Each has an operation identifier O (paper, determinizer figure, line 24): the data item that may
change. Connections are named by the file descriptor number that connect or accept gave,
a counter that all replicas advance alike.
"""

from __future__ import annotations

from typing import NamedTuple

from llft.identifiers import GroupId


class Claim(NamedTuple):
    """pthread_mutex_lock: returns True once the mutex is held."""

    mutex: int


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


class Spawn(NamedTuple):
    """Starts a thread; returns its number. `argument` is the program's own business."""

    argument: object


class Connect(NamedTuple):
    """Opens a connection to a group; returns its fd, or a Failure."""

    group_id: GroupId


class Accept(NamedTuple):
    """Takes the next connection that clients opened; returns (fd, client group id)."""

    blocking: bool = True


class Receive(NamedTuple):
    """Reads up to `limit` bytes (D-03); b"" at the end of the stream; or a Failure."""

    fd: int
    limit: int
    blocking: bool = True


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
    """Waits until one of the fds is readable (0: a connection can be accepted) or the
    timeout passes; returns the tuple of readable fds, empty on timeout."""

    fds: tuple[int, ...]
    timeout_ns: int


class Failure(NamedTuple):
    """What an application is told instead of a result. `definite` (D-20): it did not happen;
    otherwise it may have happened."""

    name: str
    definite: bool = True


WOULD_BLOCK = Failure("EAGAIN")
REFUSED = Failure("ECONNREFUSED")
RESET = Failure("ECONNRESET", definite=False)
BAD_DESCRIPTOR = Failure("EBADF")

Operation = (
    Claim
    | TryClaim
    | Release
    | ReadClock
    | RandomBytes
    | Yield
    | Sleep
    | Spawn
    | Connect
    | Accept
    | Receive
    | Send
    | HalfClose
    | Close
    | Select
)

Result = None | bool | int | bytes | tuple[int, ...] | Failure
