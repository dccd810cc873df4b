"""O of every operation (paper, determinizer figure, line 24): the data item that may change.

Of the GENERAL ones, numbers below 16 name what there is one of; from 16 on the even ones are threads, the
odd ones names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from zlib import crc32

from llft.core.determinizer.operations import (
    Accept,
    Claim,
    Close,
    ConnectOutcome,
    HalfClose,
    Obtain,
    Operation,
    Park,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
    Select,
    Send,
    Sleep,
    Spawn,
    TryClaim,
    Unpark,
)
from llft.core.determinizer.replay_gate import OperationId
from llft.core.determinizer.sockets import LISTENER
from llft.identifiers import ThreadId
from llft.wire.order import GENERAL, MUTEX, SOCKET, TIME

RANDOM: Final = 1
SPAWN: Final = 2
SLEEP: Final = 3

_NAMES: Final = 4096
"""Names share so many identifiers, or every name would need its count for ever."""


def parking_id(thread: ThreadId) -> OperationId:
    """What wakes a thread: O of Park, Unpark and interruptible Select."""
    return GENERAL, 16 + 2 * thread


def obtaining_id(name: str) -> OperationId:
    return GENERAL, 17 + 2 * (crc32(name.encode()) % _NAMES)


def select_id(thread: ThreadId, operation: Select) -> OperationId:
    if operation.interruptible:
        return parking_id(thread)
    fds = operation.fds or operation.writing
    return SOCKET, fds[0] if fds else LISTENER


_OPERATION_IDS: dict[type, Callable[[ThreadId, Any], OperationId]] = {
    Receive: lambda thread, operation: (SOCKET, operation.fd),
    Send: lambda thread, operation: (SOCKET, operation.fd),
    HalfClose: lambda thread, operation: (SOCKET, operation.fd),
    Close: lambda thread, operation: (SOCKET, operation.fd),
    ConnectOutcome: lambda thread, operation: (SOCKET, operation.fd),
    Accept: lambda thread, operation: (SOCKET, LISTENER),
    Select: select_id,
    ReadClock: lambda thread, operation: (TIME, operation.clock_id),
    RandomBytes: lambda thread, operation: (GENERAL, RANDOM),
    Obtain: lambda thread, operation: obtaining_id(operation.name),
    Spawn: lambda thread, operation: (GENERAL, SPAWN),
    Sleep: lambda thread, operation: (GENERAL, SLEEP),
    Park: lambda thread, operation: parking_id(thread),
    Unpark: lambda thread, operation: parking_id(operation.thread),
    Claim: lambda thread, operation: (MUTEX, operation.mutex),
    TryClaim: lambda thread, operation: (MUTEX, operation.mutex),
    Release: lambda thread, operation: (MUTEX, operation.mutex),
}
"""Connect is missing: its O1 depends on the step."""


def operation_id(thread: ThreadId, operation: Operation) -> OperationId:
    """O1 of any call but Connect."""
    return _OPERATION_IDS[type(operation)](thread, operation)
