"""The socket side (paper, Socket Communication: the Consistent Socket Communication Service).

`Connections` is the port through which the determinizer reads, writes, connects and accepts; whoever
owns the virtual connections implements it. The same port serves a primary, which asks it
what there is (`offer`, `writable`, `pending_accept`, `connect_state`, `failure`), and a backup,
which never asks: it is told by the entries, and only performs (`open`, `accept`, `take`, `write`).

A SOCKET entry's data says what connect, accept, select or a failed call gave, in a few bytes:

    Failure         F, or one byte for the frequent ones    a call that did not succeed
    ConnectionId    A client server number                  accept; on fd 0
    int             O group                                 connect allocated its descriptor; on fd 0
    True            C                                       connect succeeded
    True            C                                       and so says ConnectOutcome
    tuple of fds    S fd*                                   select; on the first of its fds
    the same        W number fd* fd*                        with writable ones, behind so many readable
    FromPeeked      P size                                  receive was given bytes peeked before

An interruptible select is about its thread as well as about its fds, and has a GENERAL entry instead, with
the same data, or UNPARKED (ordered mode only).
Connect makes three entries: SOCKET on fd 0 (because accept and connect take descriptors from one
counter, their order must be one), SEND of the CONNECT message, and SOCKET with the outcome; the last
one not, if it does not block.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, Protocol, cast

from llft.core.determinizer.operations import (
    BAD_DESCRIPTOR,
    IN_PROGRESS,
    REFUSED,
    RESET,
    WOULD_BLOCK,
    Failure,
)
from llft.errors import MisuseError, PeerError
from llft.identifiers import ConnectionId, GroupId
from llft.wire.order import Entry
from llft.wire.varint import get_uvarint, put_uvarint

LISTENER: Final = 0
"""The fd on which connections are accepted, and the operation identifier of the descriptor counter."""

MessageKind = Literal["data", "half_close", "close", "connect"]


class Connections(Protocol):
    """Descriptors are numbered from 1 by a counter that is never set back."""

    def open(self, group_id: GroupId) -> int:
        """Allocate the next fd for a connection to a group. `write` with "connect" follows."""

    def connect_state(self, fd: int) -> Literal[True] | Failure | None:
        """None: still connecting."""

    def connected(self, fd: int) -> None:
        """At a backup: the log says that it is."""

    def pending_accept(self) -> ConnectionId | None:
        """The first connection that waits to be accepted."""

    def accept(self, connection_id: ConnectionId) -> int:
        """Allocate the next fd for a connection that a client opened."""

    def offer(self, fd: int, limit: int) -> int | Failure | None:
        """How many bytes may be read now, at most `limit`; 0 at the end of the stream, and at once for a
        limit of 0; None: nothing yet."""

    def take(self, fd: int, size: int) -> bytes:
        """Hand out exactly `size` bytes (0 at the end of the stream)."""

    def writable(self, fd: int) -> bool | Failure:
        """Whether the window is open."""

    def write(
        self, fd: int, payload: bytes, kind: MessageKind, timestamp: int | None, digest: int | None
    ) -> tuple[int, int]:
        """Generate a message; returns the (timestamp, digest) to record.

        At a backup both come from the SEND entry (the digest may be None inside a merged run), and
        the port compares digests. "close" also comes for a connection that has failed: then it
        only gives the descriptor back.
        """

    def failure(self, fd: int) -> Failure | None:
        """BAD_DESCRIPTOR if there is no such fd, else why the connection is broken, if it is."""

    def touched(self) -> list[int] | None:
        """To which descriptors anything may have happened since this was asked last: one that a call was
        blocked on and is not touched, still blocks it. None: any of them."""

    def passed(self, entry: Entry) -> None:
        """A backup has consumed all entries before this PRIMARY_VIEW or REMOTE_VIEW."""


class FromPeeked(NamedTuple):
    """Receive, peeking or not, gave only bytes that had been peeked before."""

    size: int


SocketOutcome = Failure | ConnectionId | FromPeeked | tuple[int, ...] | int
"""True (an int, but told apart by its type) is a connect that succeeded."""

UNPARKED: Final = b"U"

_FREQUENT: Final = (WOULD_BLOCK, REFUSED, RESET, BAD_DESCRIPTOR, IN_PROGRESS)
_FREQUENT_CODES: Final = {failure: bytes((index,)) for index, failure in enumerate(_FREQUENT)}
_FAILURE, _ACCEPTED, _OPENED, _CONNECTED, _SELECTED, _SELECTED_WRITABLE, _PEEKED = b"FAOCSWP"


def encode_outcome(outcome: SocketOutcome) -> bytes:
    if isinstance(outcome, Failure):
        code = _FREQUENT_CODES.get(outcome)
        if code is not None:
            return code
        return bytes((_FAILURE, outcome.definite)) + outcome.name.encode()
    if outcome is True:
        return bytes((_CONNECTED,))
    numbers: tuple[int, ...]
    if isinstance(outcome, ConnectionId):
        tag, numbers = _ACCEPTED, outcome
    elif isinstance(outcome, FromPeeked):
        tag, numbers = _PEEKED, outcome
    elif isinstance(outcome, tuple):
        tag, numbers = _selected(cast("tuple[int, ...]", outcome))
    else:
        tag, numbers = _OPENED, (outcome,)
    data = bytearray((tag,))
    for number in numbers:
        put_uvarint(data, number)
    if len(data) > 65_535:
        raise MisuseError("select_result_too_long", "select on fewer descriptors", count=len(numbers))
    return bytes(data)


def _selected(fds: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    if not fds or fds[-1] >= 0:  # the writable ones come last
        return _SELECTED, fds
    readable = [fd for fd in fds if fd >= 0]
    return _SELECTED_WRITABLE, (len(readable), *map(abs, fds))


def decode_outcome(data: bytes) -> SocketOutcome:
    if not data:
        raise PeerError("socket_outcome_empty", "the order log is damaged; reset and rejoin")
    tag = data[0]
    if len(data) == 1 and tag < len(_FREQUENT):
        return _FREQUENT[tag]
    if tag == _FAILURE and len(data) >= 2:
        return Failure(data[2:].decode("utf-8", "replace"), bool(data[1]))
    if tag == _CONNECTED and len(data) == 1:
        return True
    numbers = _numbers(data)
    if tag == _SELECTED:
        return numbers
    if tag == _SELECTED_WRITABLE and numbers and numbers[0] < len(numbers):
        count = numbers[0] + 1
        return (*numbers[1:count], *[-fd for fd in numbers[count:]])
    if tag == _PEEKED and len(numbers) == 1:
        return FromPeeked(*numbers)
    if tag == _ACCEPTED and len(numbers) == 3:
        return ConnectionId(*numbers)
    if tag == _OPENED and len(numbers) == 1:
        return numbers[0]
    raise PeerError("socket_outcome_unknown", "the order log is damaged; reset and rejoin", data=data)


def _numbers(data: bytes) -> tuple[int, ...]:
    numbers = []
    position = 1
    try:
        while position < len(data):
            number, position = get_uvarint(data, position)
            numbers.append(number)
    except IndexError:
        raise PeerError("socket_outcome_truncated", "the order log is damaged; reset and rejoin") from None
    return tuple(numbers)
