"""Is there any order at all? The search of Wing and Gong (1993), with Lowe's memory of where it has been
(2017).

Only asked when the group's own order fails as the witness: if there is another order, the group told a wrong
order of a history that is right; if there is none, what the clients saw cannot have happened.

The history is a list of events in time: calls, and returns. Take any call that is before the first return,
if the model allows its result in the current state; lift it out with its return, and go on; when a return is
in the way, put back the last one taken and try the next. What was tried (which calls, which state) is never
tried again. Exponential in the number of concurrent calls at worst, so the search has a bound and may end
undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from llft.pipeline.histories.models import Model
from llft.pipeline.histories.witness import ENDLESS_NS, Call

STEP_LIMIT = 2_000_000


class Answer(Enum):
    LINEARIZABLE = "linearizable"
    NOT_LINEARIZABLE = "not linearizable"
    UNDECIDED = "undecided"


class _Event:
    """A call or a return, in a doubly linked list."""

    __slots__ = ("after", "before", "index", "match")

    def __init__(self, index: int) -> None:
        self.index = index
        self.before: _Event | None = None
        self.after: _Event | None = None
        self.match: _Event | None = None
        """Of a call: its return. Of a return: None."""

    def lift(self) -> None:
        """Take a call and its return out of the list."""
        assert self.match is not None
        for event in (self, self.match):
            assert event.before is not None
            event.before.after = event.after
            if event.after is not None:
                event.after.before = event.before

    def put_back(self) -> None:
        """In the reverse order of `lift`; each still knows its neighbours."""
        assert self.match is not None
        for event in (self.match, self):
            assert event.before is not None
            event.before.after = event
            if event.after is not None:
                event.after.before = event


def search(calls: Sequence[Call], model: Model, *, step_limit: int = STEP_LIMIT) -> Answer:
    """Calls without reply may be left out of the order."""
    head, required = (
        _linked(calls),
        sum(1 << i for i, call in enumerate(calls) if call.return_ns < ENDLESS_NS),
    )
    state, done = model.initial, 0
    taken: list[tuple[_Event, Any]] = []
    seen: set[tuple[int, Any]] = set()
    event = head.after
    for _ in range(step_limit):
        if done & required == required:
            return Answer.LINEARIZABLE
        if event is not None and event.match is not None:
            call = calls[event.index]
            after = model.apply(state, call.operation, call.result)
            mark = (done | 1 << event.index, after)
            if after is None or mark in seen:
                event = event.after
                continue
            seen.add(mark)
            taken.append((event, state))
            event.lift()
            done, state, event = mark[0], after, head.after
        elif not taken:
            return Answer.NOT_LINEARIZABLE
        else:
            event, state = taken.pop()
            done &= ~(1 << event.index)
            event.put_back()
            event = event.after
    return Answer.UNDECIDED


def _linked(calls: Sequence[Call]) -> _Event:
    """The events in the order of time; of a return and a call at one instant the call is first, which allows
    more."""
    moments: list[tuple[int, int, _Event]] = []
    for index, call in enumerate(calls):
        begin, end = _Event(index), _Event(index)
        begin.match = end
        moments += [(call.call_ns, 0, begin), (call.return_ns, 1, end)]
    moments.sort(key=lambda moment: (moment[0], moment[1], moment[2].index))
    head = last = _Event(-1)
    for _, _, event in moments:
        event.before, last.after = last, event
        last = event
    return head
