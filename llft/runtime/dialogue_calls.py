"""Calls for which a dialogue (`runtime.dialogues`) is lent, or that wait in one when it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llft.core.determinizer.operations import (
    Operation,
    Park,
    RandomBytes,
    ReadClock,
    Receive,
    Select,
    Send,
)
from llft.core.dialogue_remote import Remote
from llft.core.dialogue_threads import LentThreads
from llft.past.birth_log import encode_result
from llft.runtime.application_thread import ApplicationThread
from llft.runtime.dialogue_kinds import KINDS_OF_TURNS


def awaited(operation: Operation) -> list[int]:
    """The descriptors that a call may wait for; none: a dialogue is not for it."""
    if isinstance(operation, Receive):
        waits = operation.blocking and not operation.peek and operation.limit > 0
        return [operation.fd] if waits else []
    if isinstance(operation, Select):
        return list(dict.fromkeys([*operation.fds, *operation.writing]))
    return []


def concerned(operation: Operation) -> list[int] | None:
    """Those that one is about which does not wait. None: it is not made in a dialogue."""
    if isinstance(operation, Receive):
        return [operation.fd] if operation.limit > 0 and not operation.peek else None
    return [operation.fd] if isinstance(operation, Send) else None if isinstance(operation, Park) else []


def waits_for_another(operation: Operation) -> bool:
    """For as long as it takes."""
    return isinstance(operation, Park) and operation.timeout_ns < 0


def is_timed(operation: Operation) -> bool:
    return isinstance(operation, Select) and operation.timeout_ns > 0


def on_line(remote: Remote, line: Any) -> tuple[bytes, int, tuple[int, ...], bytes, Any]:
    _, _, newest, birth, destinations = line
    return birth, newest, remote.numbers, remote.held, destinations


def at_gates(lent: LentThreads, threads: Mapping[int, ApplicationThread]) -> tuple[Any, ...]:
    """With the threads themselves: their results are put where they look for them. And with results of
    those that can go on, and what the birth log has of them."""
    rows = []
    for row in lent.rows:
        thread, given = threads[row[0]], None
        if row[0] in lent.results:
            result = lent.results[row[0]]
            given = result, encode_result(thread.kind, result)
        rows.append((row[0], thread, thread.gate, *row[1:], given))
    return *KINDS_OF_TURNS, lent.parked_elsewhere, rows


def operation_of(kind: str, *what: Any) -> Operation:
    """That a thread waits for in its dialogue."""
    if kind == "send":
        return Send(*what)
    if kind == "select":
        return Select(*what)
    if kind == "park":
        return Park(-1)
    if kind in ("clock", "random"):
        return ReadClock(*what) if kind == "clock" else RandomBytes(*what)
    fd, limit, blocking = what
    return Receive(fd, limit, blocking, False)
