"""The group's order as the witness of linearizability: no search.

The group says in which order it performed the operations on an object. Two things are to be seen: that a
sequential execution in this order gives every client the result it has, and that no operation stands before
another that had returned before the first was called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llft.pipeline.histories.models import Model

ENDLESS_NS = 1 << 62


class Call(NamedTuple):
    client: str
    operation: str
    result: str | None
    """None: no reply came, the operation may have been performed or not."""
    call_ns: int
    return_ns: int
    """`ENDLESS_NS` if no reply came."""
    order: int
    """0: not told."""


class Contradiction(NamedTuple):
    condition: str
    order: int
    client: str
    expected: str
    found: str


def find_contradiction(calls: Sequence[Call], model: Model) -> Contradiction | None:
    """The first one, by order number; None if the group's order explains everything."""
    ordered = place(calls, model)
    return _replay(ordered, model) or _real_time(ordered)


def place(calls: Sequence[Call], model: Model) -> list[Call]:
    """In the group's order. Where the order has a hole that a call without reply can fill, it does: the one
    that was called first, which is the best that can be done for real-time order."""
    told = sorted((call for call in calls if call.order), key=lambda call: call.order)
    if model.has_holes:
        return told
    pending = sorted((call for call in calls if not call.order), key=lambda call: -call.call_ns)
    ordered: list[Call] = []
    for call in told:
        while pending and len(ordered) + 1 < call.order:
            ordered.append(pending.pop()._replace(order=len(ordered) + 1))
        ordered.append(call)
    return ordered


def _replay(ordered: Sequence[Call], model: Model) -> Contradiction | None:
    state = model.initial
    for call in ordered:
        after = model.apply(state, call.operation, call.result)
        if after is None:
            expected = f"a result that follows from the state {state}"
            found = f"{call.operation} = {call.result}"
            return Contradiction("wrong-result", call.order, call.client, expected, found)
        state = after
    return None


def _real_time(ordered: Sequence[Call]) -> Contradiction | None:
    latest: Call | None = None
    for call in ordered:
        if latest is not None and call.return_ns < latest.call_ns:
            expected = f"before order {latest.order}, which was called at {latest.call_ns} ns"
            found = f"order {call.order}, returned at {call.return_ns} ns"
            return Contradiction("wrong-real-time-order", call.order, call.client, expected, found)
        if latest is None or call.call_ns > latest.call_ns:
            latest = call
    return None
