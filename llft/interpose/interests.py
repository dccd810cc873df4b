"""A set of descriptors that is waited for: what `poll` and `epoll` have in common."""

from __future__ import annotations

import posix
import select as _select
import stat
from collections.abc import Sequence

from llft.core.determinizer.operations import Result
from llft.interpose import passage, threads
from llft.interpose.descriptors import Asked, Description, Ready, Watched, table
from llft.interpose.locks import interruptible
from llft.interpose.refusing import RefusedError
from llft.interpose.waiting import Interest, go_on, wait
from llft.interpose.watching import Plan

READING = _select.POLLIN | _select.POLLRDNORM
WRITING = _select.POLLOUT | _select.POLLWRNORM
_native_fstat = posix.fstat

Event = tuple[int, int]
"""A descriptor's number and its mask."""


def has_company() -> bool:
    """Without other threads and signals nobody could change a set, or what is in it, meanwhile."""
    return bool(passage.ordered or threads.count() or interruptible())


class _AlwaysReady(Description):
    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        return reading, writing


_ALWAYS_READY = _AlwaysReady()


def description_of(number: int) -> Description:
    found = table.get(number)
    if found is not None:
        return found
    if stat.S_ISREG(_native_fstat(number).st_mode):
        return _ALWAYS_READY
    raise RefusedError(f"waiting for descriptor {number}", "only virtual sockets and pipes can be waited for")


class Interests(Watched):
    """Numbers and masks, in the order of registration. Of sets that are told of closed descriptors there is a
    plan, after some waits without a change."""

    def __init__(self, *, may_plan: bool) -> None:
        super().__init__()
        self.masks: dict[int, int] = {}
        self.version = 0
        self._plan: Plan | None = None
        self._may_plan = may_plan
        self._unplanned = 0
        """Waits since the last change."""

    def put(self, number: int, mask: int) -> None:
        self.masks[number] = mask
        self._plan, self._unplanned = None, 0

    def drop(self, number: int) -> None:
        del self.masks[number]
        self._plan, self._unplanned = None, 0

    def add(self, number: int, mask: int) -> None:
        """Whoever waits already waits for this one too, from now on."""
        self.put(number, mask)
        self.version += 1
        self.changed()

    def wait(self, timeout_ns: int) -> list[Event]:
        while True:
            version = self.version
            events = self._wait(timeout_ns)
            if events or version == self.version or timeout_ns >= 0:
                return events

    def _wait(self, timeout_ns: int) -> list[Event]:
        plan = self._plan
        if plan is not None and plan.holds():
            return self._wait_as_planned(plan, timeout_ns)
        numbers = [number for number, mask in self.masks.items() if mask & (READING | WRITING)]
        interests: list[Interest] = [
            (description_of(number), bool(self.masks[number] & READING), bool(self.masks[number] & WRITING))
            for number in numbers
        ]
        self._unplanned += 1
        if self._may_plan and self._unplanned > 1 and not self._unplanned & (self._unplanned - 1):
            self._plan = Plan.of(numbers, interests) or self._plan
        return self._events(numbers, wait([*interests, *self._additions()], timeout_ns))

    def _additions(self) -> list[Interest]:
        return [(_Additions(self, self.version), True, False)] if has_company() else []

    def go_on(
        self, numbers: Sequence[int], found: list[Interest], version: int, answer: Result, timeout_ns: int
    ) -> list[Event]:
        """A wait that was begun in C, when the set had this version."""
        additions: list[Interest] = [(_Additions(self, version), True, False)] if has_company() else []
        events = self._events(numbers, go_on([*found, *additions], answer, timeout_ns))
        return self.wait(timeout_ns) if not events and version != self.version and timeout_ns < 0 else events

    def _wait_as_planned(self, plan: Plan, timeout_ns: int) -> list[Event]:
        additions = self._additions()
        answer = plan.ask(timeout_ns, (self,) if additions else ())
        is_same = plan is self._plan and (not additions or plan.holds())  # after what others did meanwhile
        readable = plan.readable(answer) if is_same else None
        if readable is not None:
            return [(number, self.masks[number] & READING) for number in readable]
        return self._events(plan.numbers, go_on([*plan.interests, *additions], answer, timeout_ns))

    def _events(self, numbers: Sequence[int], found: list[Ready]) -> list[Event]:
        events = []
        for number, (readable, writable) in zip(numbers, found, strict=False):
            mask = self.masks.get(number, 0) & ((READING if readable else 0) | (WRITING if writable else 0))
            if mask:
                events.append((number, mask))
        return events


class _Additions(Description):
    """Ready when something was added to a set since."""

    def __init__(self, interests: Interests, version: int) -> None:
        super().__init__()
        self._interests = interests
        self._version = version

    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        return self._interests.version != self._version, False

    def watched(self) -> tuple[Watched, ...]:
        return (self._interests,)
