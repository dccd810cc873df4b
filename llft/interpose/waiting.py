"""Waiting for several things at once: the core's connections, and what is inside the program.

One round: look at everything that can be seen without the core; if there are connections among it, ask the
core, waiting if nothing was found yet. While it waits, the thread is on the lists of what it watches, and
whoever changes one of those unparks it. A wait with a timeout that was disturbed for nothing looks once
more and returns empty-handed before its time, as poll may: to know how much time is left would cost an
order entry on every round of an event loop. Socket calls with a timeout keep their own deadline.
"""

from __future__ import annotations

from collections.abc import Sequence

from llft.core.determinizer.operations import Park, Result, Select
from llft.interpose import passage
from llft.interpose.descriptors import Answered, Asked, Description, Ready, Watched
from llft.interpose.locks import monotonic_ns
from llft.interpose.monitor import inside

Interest = tuple[Description, bool, bool]
"""(what, whether its readability matters, whether its writability does)."""


def wait(interests: Sequence[Interest], timeout_ns: int) -> list[Ready]:
    """Negative: for ever; 0: only look."""
    if not passage.ordered:
        return _wait(interests, timeout_ns)
    with inside:
        return _wait(interests, timeout_ns)


def _wait(interests: Sequence[Interest], timeout_ns: int) -> list[Ready]:
    while True:
        asked = Asked()
        found = [what.probe(reading, writing, asked) for what, reading, writing in interests]
        some = any(readable or writable for readable, writable in found)
        if not asked and (some or timeout_ns == 0):
            return found
        settled = _settled(interests, _ask(interests, asked, 0 if some else timeout_ns), timeout_ns)
        if settled is not None:
            return settled
        timeout_ns = min(timeout_ns, 0)


def _settled(interests: Sequence[Interest], answered: Answered | None, timeout_ns: int) -> list[Ready] | None:
    """None: disturbed, or answered for nothing. It is to be looked once more."""
    if answered is None:
        return None
    found = [what.settle(reading, writing, answered) for what, reading, writing in interests]
    some = any(readable or writable for readable, writable in found)
    return found if some or timeout_ns == 0 or not (answered.readable or answered.writable) else None


def go_on(interests: Sequence[Interest], answer: Result, timeout_ns: int) -> list[Ready]:
    """A wait whose first question was asked by others (`watching`)."""
    settled = _settled(interests, answered_by(answer), timeout_ns)
    return _wait(interests, min(timeout_ns, 0)) if settled is None else settled


def _ask(interests: Sequence[Interest], asked: Asked, timeout_ns: int) -> Answered | None:
    """None: disturbed."""
    watched = [source for what, _, _ in interests for source in what.watched()] if timeout_ns else []
    if not asked:
        return None if ask(Park(timeout_ns), watched) else Answered(())
    operation = Select(tuple(asked.reading), timeout_ns, tuple(asked.writing), interruptible=True)
    return answered_by(ask(operation, watched))


def ask(operation: Park | Select, watched: Sequence[Watched]) -> Result:
    """The core, on the lists of what is watched meanwhile."""
    me = passage.current()
    for source in watched:
        source.watchers[me] = None
    depth = inside.step_out() if passage.ordered else 0
    try:
        if isinstance(operation, Select):
            return passage.select(operation)
        return passage.park(operation.timeout_ns)
    finally:
        inside.step_in(depth)
        for source in watched:
            source.watchers.pop(me, None)


def answered_by(result: Result) -> Answered | None:
    """None: disturbed."""
    if result is None:
        return None
    assert isinstance(result, tuple)
    return Answered(result)  # type: ignore[arg-type]


class Deadline:
    """Of one socket call; the clock is read only if there is a timeout to keep."""

    def __init__(self, timeout_ns: int) -> None:
        self._end_ns = monotonic_ns() + timeout_ns if timeout_ns > 0 else -1

    def block_on(self, what: Description, reading: bool, writing: bool) -> None:
        """Until something happened there; TimeoutError if the time is over."""
        left_ns = -1
        if self._end_ns >= 0:
            left_ns = self._end_ns - monotonic_ns()
            if left_ns <= 0:
                raise TimeoutError("timed out")
        wait([(what, reading, writing)], left_ns)
