"""Calls for which a dialogue (`runtime.dialogues`) is lent, or that wait in one when it is taken back."""

from __future__ import annotations

from typing import Any

from llft.core.determinizer.operations import Operation, Park, Receive, Select, Send
from llft.core.dialogue_remote import Remote


def awaited(operation: Operation) -> list[int]:
    """The descriptors that a call may wait for; none: a dialogue is not for it."""
    if isinstance(operation, Receive):
        waits = operation.blocking and not operation.peek and operation.limit > 0
        return [operation.fd] if waits else []
    if isinstance(operation, Select) and operation.timeout_ns != 0:
        return list(dict.fromkeys([*operation.fds, *operation.writing]))
    return []


def waits_for_another(operation: Operation) -> bool:
    """For as long as it takes."""
    return isinstance(operation, Park) and operation.timeout_ns < 0


def is_timed(operation: Operation) -> bool:
    return isinstance(operation, Select) and operation.timeout_ns > 0


def on_line(remote: Remote, line: Any) -> tuple[bytes, int, tuple[int, ...], bytes, Any]:
    _, _, newest, birth, destinations = line
    return birth, newest, remote.numbers, remote.held, destinations


def operation_of(kind: str, *what: Any) -> Operation:
    """That a thread waits for in its dialogue."""
    if kind == "send":
        return Send(*what)
    if kind == "select":
        return Select(*what)
    if kind == "park":
        return Park(-1)
    fd, limit, blocking = what
    return Receive(fd, limit, blocking, False)
