"""Which calls can be completed then and there, without the ways of those that wait."""

from __future__ import annotations

from typing import Final

from llft.core.determinizer.operations import Operation, RandomBytes, ReadClock, Receive, Select, Send

_HARDLY_WAITING: Final = frozenset((ReadClock, RandomBytes, Send))


def may_be_at_once(operation: Operation, *, live: bool) -> bool:
    """A primary does not try what has to wait as a rule: it would be tried twice."""
    if isinstance(operation, Receive):
        return operation.limit > 0 and not (live and operation.blocking)
    if isinstance(operation, Select):
        waits = operation.timeout_ns != 0
        return not (live and waits) and bool(operation.fds or operation.writing or not waits)
    return type(operation) in _HARDLY_WAITING
