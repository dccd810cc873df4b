"""How many calls the program made since the collector ran, and its ways to calls that need no port.

The compiled lane counts in `llft.reading_on`, where calls are made in runs (D-72) and count too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llft.core.determinizer.operations import Select

native: Any
try:
    from llft import reading_on
except ImportError:
    native = None
else:
    native = reading_on


class _Count:
    """The same for the reference lane, which makes no runs."""

    def __init__(self) -> None:
        self._calls = 0
        self._calls_max = 1
        self._spent = 0

    def begin(self, waiting: list[Callable[[], None]], calls_max: int) -> None:
        self._calls_max = calls_max

    def called(self) -> bool:
        self._calls += 1
        return self._calls >= self._calls_max

    def calls(self) -> int:
        return self._calls

    def set_calls(self, count: int) -> None:
        self._calls = count

    def spend(self, amount: int, allowance: int) -> bool:
        self._spent += amount
        if self._spent < allowance:
            return False
        self._spent = 0
        return True

    def spent(self) -> int:
        return self._spent

    def set_spent(self, amount: int) -> None:
        self._spent = amount


_count: Any = _Count() if native is None else native
begin: Callable[[list[Callable[[], None]], int], None] = _count.begin
"""What must be empty for a call to be made in a run, and how many calls there are between two collections."""
called: Callable[[], bool] = _count.called
"""A call of the port was made: whether a collection is due."""
calls: Callable[[], int] = _count.calls
set_calls: Callable[[int], None] = _count.set_calls
spend: Callable[[int, int], bool] = _count.spend
"""On something that is done with a lock: whether so large an allowance is used up; if so it begins anew."""
spent: Callable[[], int] = _count.spent
set_spent: Callable[[int], None] = _count.set_spent


def end_calls_with(
    collect: Callable[[], None], interrupt: Callable[[], None], resume: Callable[[], object]
) -> None:
    """Behind a call that was made in a dialogue: of a collection that is due, and of what the main thread was
    asked for meanwhile. `resume`: of one that the core was handed."""
    if native is not None:
        native.collect_with(collect)
        native.interrupt_with(interrupt)
        native.resume_with(resume)


def function(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """A replacement for a builtin: it makes its calls in runs where it can, else the usual way."""
    made: Callable[..., Any] = usual if native is None else native.function(name, usual)
    return made


def nothing(fd: int) -> bool:
    """A read that does not wait finds nothing. False: it goes the usual way."""
    return native is not None and bool(native.nothing(fd))


def reading(clock_id: int) -> int | None:
    """None: it goes the usual way."""
    value: int | None = None if native is None else native.reading(clock_id)
    return value


class _Mutex:
    """For the reference lane. A class of locks is made of it, which has `_acquire` and `_release`."""

    __slots__ = ("_mutex",)
    _mutex: int
    """Its number."""
    _acquire: Callable[..., bool]
    _release: Callable[[], None]

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._acquire(blocking, timeout)

    def release(self) -> None:
        self._release()

    def __enter__(self) -> bool:
        return self._acquire()

    def __exit__(self, *exception: object) -> None:
        self._release()

    acquire_lock = acquire
    release_lock = release


if TYPE_CHECKING or native is None:
    Mutex = _Mutex
else:
    Mutex = native.Mutex
    """In ordered mode: claims and releases without arguments are made in runs; all others by its methods."""


def receive(fd: int, limit: int) -> Any:
    """In a dialogue (D-74): bytes; None: it goes the usual way; HANDED: the core has the call."""
    return None if native is None else native.receive(fd, limit, True)


def look(fd: int, limit: int) -> Any:
    """The same of a read that does not wait: bytes, or True if there is nothing."""
    return None if native is None else native.look(fd, limit)


def select(operation: Select) -> Any:
    """The same: a tuple, HANDED, or a number: it goes the usual way, with this timeout."""
    fds, timeout_ns, writing, interruptible = operation
    return timeout_ns if native is None else native.select(fds, timeout_ns, writing, interruptible, True)


def park() -> Any:
    """The same of a Park without a timeout: True if it was unparked; None: it goes the usual way; HANDED."""
    return None if native is None else native.park(True)


def yield_turn(*, counted: bool) -> bool:
    """The same of a Yield: others have run. False: it goes the usual way."""
    return native is not None and native.yield_turn(counted) is not None


def unpark(thread: int) -> bool | None:
    """The same: None: it goes the usual way."""
    made: bool | None = None if native is None else native.unpark(thread, True)
    return made


def send(fd: int, payload: bytes, patient: bool) -> Any:
    """The same: True if it is said."""
    return None if native is None else native.send(fd, payload, patient, True)


HANDED: object = None if native is None else native.HANDED


def speak_for(kind: type) -> None:
    """Of sockets: where a dialogue is, their bytes need no way through Python."""
    if native is not None:
        native.speak_for(kind)


def select_for(*parts: Any) -> Any:
    """Of sets of descriptors: where all that they have to ask is lent, they need no way through Python. The
    select that does so, or None."""
    return None if native is None else native.select_for(*parts)


def lock_for(kind: type, allowance: int, price_of_trylock: int) -> None:
    """Of locks: where nobody waits, they need no way through Python."""
    if native is not None:
        native.lock_for(kind, allowance, price_of_trylock)


def know(description: object, stream: object, fd: int) -> None:
    """A call on this socket was made: where its connection is lent, the next ones need no Python."""
    if native is not None:
        native.know(description, stream, fd)


def forget_known(fd: int) -> None:
    """A connection's socket has come into a state that only Python knows of."""
    if native is not None:
        native.forget_known(fd)
