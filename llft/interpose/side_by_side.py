"""In ordered mode: what the standard library leaves to the interpreter's lock, under locks that are ordered.

Programs may rely on these without locks of their own, because they are documented as safe for threads: names
of threads come of one counter, `Event.is_set` looks at a flag, a SimpleQueue appends to a deque, a random
generator is one whole step at a time, and no two calls of uuid1 have the same time. Under the token none of
it needs anything.

A condition variable makes a lock for every wait, and leaves it held: the core would have more and more
mutexes that nobody knows any more. Here the waiter releases it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from typing import Any

from llft.interpose import randomness
from llft.interpose.monitor import inside
from llft.interpose.ordered_locks import OrderedLock

_thread_numbers = itertools.count(1)


def next_thread_number() -> int:
    with inside:
        return next(_thread_numbers)


def _is_set(self: Any) -> bool:
    with self._cond:
        flag: bool = self._flag
        return flag


def _wait(self: Any, timeout: float | None = None) -> bool:
    """threading.Condition.wait, but for the releases of the waiter's own lock."""
    if not self._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    waiter = OrderedLock()
    waiter.acquire()
    self._waiters.append(waiter)
    saved, notified = self._release_save(), False
    try:
        if timeout is None:
            notified = waiter.acquire()
        else:
            notified = waiter.acquire(timeout=timeout) if timeout > 0 else waiter.acquire(False)
    finally:
        self._acquire_restore(saved)
        if notified or waiter in self._waiters:
            waiter.release()
        if not notified and waiter in self._waiters:
            self._waiters.remove(waiter)
    return notified


def ordered_queue(plain: Any) -> type:
    """queue's SimpleQueue in Python; what is put and taken is one step with its count."""

    class SimpleQueue(plain):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._order = OrderedLock()

        def put(self, item: Any, block: bool = True, timeout: Any = None) -> None:
            with self._order:
                super().put(item)

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            if timeout is not None and timeout < 0:
                raise ValueError("'timeout' must be a non-negative number")
            if not self._count.acquire(block, timeout):
                raise self._empty()
            with self._order:
                return self._queue.popleft()

        def empty(self) -> bool:
            with self._order:
                return not self._queue

        def qsize(self) -> int:
            with self._order:
                return len(self._queue)

    SimpleQueue.__module__ = "queue"
    return SimpleQueue


class OrderedRandom(randomness.Random):
    """One draw at a time; `random` shares one generator among all threads."""

    _order: OrderedLock

    def __new__(cls, *arguments: Any) -> OrderedRandom:
        self = super().__new__(cls, *arguments)
        self._order = OrderedLock()
        return self

    def seed(self, n: Any = None, /) -> None:
        with self._order:
            super().seed(n)

    def random(self) -> float:
        with self._order:
            return super().random()

    def getrandbits(self, k: int, /) -> int:
        with self._order:
            return super().getrandbits(k)

    def getstate(self) -> Any:
        with self._order:
            return super().getstate()

    def setstate(self, state: Any, /) -> None:
        with self._order:
            super().setstate(state)


def replacements() -> dict[str, dict[str, object]]:
    return {"_random": {"Random": OrderedRandom}}


def seed_temporary_names(tempfile: Any) -> None:
    """The module makes its generator and finds its directory when the first name is wanted, and looks
    whether it has them without a lock."""
    tempfile._get_candidate_names().rng.random()
    tempfile.gettempdir()


def one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    order = OrderedLock()

    @wraps(function)
    def ordered(*arguments: Any, **named: Any) -> Any:
        with order:
            return function(*arguments, **named)

    return ordered


def prepare(threading: Any, queue: Any, uuid: Any) -> None:
    """The modules, just imported. The system's library makes uuid1 one step; in Python it compares with the
    last one's time."""
    uuid.uuid1 = one_at_a_time(uuid.uuid1)
    uuid.getnode = one_at_a_time(uuid.getnode)
    threading._counter = next_thread_number
    threading.Event.is_set = threading.Event.isSet = _is_set
    threading.Condition.wait = _wait
    simple = ordered_queue(queue._PySimpleQueue)
    simple._empty = queue.Empty  # type: ignore[attr-defined]
    queue._PySimpleQueue = simple
