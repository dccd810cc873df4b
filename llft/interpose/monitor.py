"""What the replaced objects share, in ordered mode: entered by one thread at a time, in the primary's order.

Under the token one thread runs at a time, and the table of descriptors, the reception, pipes and pairs of
sockets keep their state in plain Python. In ordered mode (D-16) threads run side by side. So whatever looks
at that state, or changes it, is *inside*: a mutex of the core, whose claims and releases are ordered like
those of the program. Reads and writes of connections do not come here. Laws:

* A thread that waits is not inside meanwhile. An Unpark that comes between its last look and its Park is
  remembered (the permit of `core.determinizer.parking`).
* A thread that is inside may enter again.

Under the token all of this is nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from llft.core.determinizer.operations import Claim, Release
from llft.errors import InvariantError
from llft.interpose import passage

P = ParamSpec("P")
R = TypeVar("R")

INSIDE, IMPORTING = 1, 2
"""Numbers of mutexes. Those of the program's locks are passing ones (`ordered_locks`)."""


class Monitor:
    def __init__(self, mutex: int, timeout_ns: int = -1) -> None:
        self._mutex = mutex
        self._timeout_ns = timeout_ns
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        if not passage.ordered:
            return
        me = passage.current()
        if not me:
            raise InvariantError("monitor_of_the_program", mutex=self._mutex)
        if self._owner == me:
            self._depth += 1
        else:
            self._claim(me, 1)

    def __exit__(self, *exception: object) -> None:
        if passage.ordered:
            self._depth -= 1
            if not self._depth:
                self._release()

    def step_out(self) -> int:
        """Whoever is about to wait leaves, however often it has entered; `step_in` brings it back."""
        if not passage.ordered or self._owner != passage.current():
            return 0
        depth, self._depth = self._depth, 0
        self._release()
        return depth

    def step_in(self, depth: int) -> None:
        if depth:
            self._claim(passage.current(), depth)

    def _claim(self, me: int, depth: int) -> None:
        if not passage.call(Claim(self._mutex, self._timeout_ns)):
            self.too_long()
        self._owner, self._depth = me, depth

    def too_long(self) -> None:
        raise InvariantError("monitor_without_end", mutex=self._mutex)

    def _release(self) -> None:
        self._owner = 0
        passage.call(Release(self._mutex))


inside = Monitor(INSIDE)


def entered(function: Callable[P, R]) -> Callable[P, R]:
    """All of it inside."""

    @wraps(function)
    def within(*arguments: P.args, **named: P.kwargs) -> R:
        if not passage.ordered:
            return function(*arguments, **named)
        with inside:
            return function(*arguments, **named)

    return within
