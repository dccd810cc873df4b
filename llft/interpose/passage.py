"""The way of every interposed call to the port, and the check points of what needs no call.

Under the token one application thread runs at a time, so the replaced objects keep their state in plain
Python and come here only to block, to wake, or to ask the outside. What they do without a call still
counts: a thread that spins on a trylock, or in a loop, would keep the token for ever. So such things are
counted, and whoever has used up the allowance yields. The counts follow from the program alone, and so does
every Yield. Calls need none: the core counts them itself.

In ordered mode (D-16) threads run side by side, the interpreter switches them, and nobody has to yield. What
the replaced objects share there is inside a `monitor`.
"""

from __future__ import annotations

from collections.abc import Callable

from llft.core.determinizer.operations import (
    Claim,
    Operation,
    Park,
    Release,
    Result,
    Select,
    TryClaim,
    Unpark,
    Yield,
)
from llft.errors import InvariantError
from llft.interpose import counting
from llft.interpose.port import Port

TICKS = 2048
"""How many iterations of loops until the thread yields (locks: `locks`)."""

CALLS = 1024
"""How many calls of the port until the collector runs (`collecting`)."""

MAIN_THREAD = 1

current: Callable[[], int] = int
"""Number of the calling application thread; 0: not one of the program's. The port's own, after `enter`."""

ordered = False
"""Whether threads run side by side. Set by `enter`, for ever."""

asking = 0
"""The thread that asks the outside, inside the core's step: it must not call (`asking`)."""

_AMIDST = frozenset((Claim, TryClaim, Release, Park, Unpark))
"""In ordered mode a thread is amidst something of ours when it calls these: no moment for destructors."""

_port: Port | None = None
_ticks = 0
_interruptions: list[Callable[[], None]] = []
"""What the main thread is to do at its next check point (signal handlers)."""
_at_allowance: list[Callable[[], None]] = []
counting.begin(_interruptions, CALLS)


def enter(port: Port) -> None:
    """Everything goes through this port from now on."""
    global _port, current, ordered
    if _port is not None:
        raise InvariantError("interposed_twice")
    _port = port
    current = port.current
    ordered = port.ordered()
    counting.end_calls_with(_end_call, _interrupt_if_main, resume)


def port() -> Port:
    assert _port is not None, "not interposed"
    return _port


def call(operation: Operation) -> Result:
    assert _port is not None, "not interposed"
    if asking and asking == current():
        raise InvariantError("called_while_asking", operation=operation)
    result = _port.call(operation)
    if counting.called() and not (ordered and type(operation) in _AMIDST):
        _end_call()
    elif _interruptions and current() == MAIN_THREAD:
        interrupt()
    return result


def select(operation: Select) -> Result:
    """In a dialogue if there is one, else the usual way."""
    made = counting.select(operation)
    if made is not counting.HANDED and not isinstance(made, int):
        answer: Result = made
        return answer
    return select_on(made, operation.fds, operation.writing, operation.interruptible)


def select_on(
    made: object, fds: tuple[int, ...], writing: tuple[int, ...], interruptible: bool = True
) -> Result:
    """What was begun in a dialogue, and is not done there: HANDED, or with this timeout."""
    if made is counting.HANDED:
        return resume()
    assert isinstance(made, int)
    return call(Select(fds, made, writing, interruptible))


def park(timeout_ns: int) -> bool:
    """In a dialogue if there is one. False: the time passed."""
    made = None if timeout_ns >= 0 else counting.park()
    if made is None:
        made = call(Park(timeout_ns))
    elif made is counting.HANDED:
        made = resume()
    return bool(made)


def unpark(thread: int) -> bool:
    """The same: whether it was parked."""
    made = counting.unpark(thread)
    return bool(call(Unpark(thread)) if made is None else made)


def yield_turn() -> None:
    """Let others run; the same."""
    if not counting.yield_turn(counted=True):
        call(Yield())


def resume() -> Result:
    """Of a call that was begun in a dialogue (`counting.receive`), and that the core has now."""
    assert _port is not None, "not interposed"
    result = _port.resume()
    if counting.called():
        _end_call()
    elif _interruptions and current() == MAIN_THREAD:
        interrupt()
    return result


def _end_call() -> None:
    """Behind one with which a collection is due."""
    counting.set_calls(0)
    for function in _at_allowance:
        function()
    if _interruptions and current() == MAIN_THREAD:
        interrupt()


def _interrupt_if_main() -> None:
    if current() == MAIN_THREAD:
        interrupt()


def tick() -> None:
    """One iteration of a loop."""
    global _ticks
    _ticks += 1
    if _ticks >= TICKS:
        _ticks = 0
        used_up()


def no_tick() -> None:
    """In ordered mode a loop keeps nobody from running."""


def used_up() -> None:
    """Let others run, and the collector."""
    if _port is None or not _port.current():
        return
    if not counting.yield_turn(counted=False):
        _port.call(Yield())
    for function in _at_allowance:
        function()
    if _interruptions and current() == MAIN_THREAD:
        interrupt()


def at_allowance(function: Callable[[], None]) -> None:
    _at_allowance.append(function)


def interrupt_main(function: Callable[[], None]) -> None:
    _interruptions.append(function)


def interrupt() -> None:
    """In the main thread: run what was asked for, each once. What it raises, the program gets."""
    while _interruptions:
        _interruptions.pop(0)()
