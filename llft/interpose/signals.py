"""Signals: handlers are kept, and run for the signals that the program sends to itself.

A signal from outside comes at some moment that no replica can repeat, and SIGTERM and SIGINT belong to
whoever runs the group. What the program sends to itself (kill of its own pid, raise_signal, alarm, interval
timers) runs its handler in the main thread, at that thread's next check point; a main thread that waits in
a lock or in select is woken for it. Timers are threads of the program that sleep. In ordered mode only the
main thread can send itself one.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import posix
from collections.abc import Callable
from typing import Any

from llft.core.determinizer.operations import Sleep, Unpark
from llft.interpose import identity, passage
from llft.interpose.descriptors import system_error, table
from llft.interpose.ending import exit_now
from llft.interpose.locks import expect_signals
from llft.interpose.pipes import write
from llft.interpose.refusing import USE_TOKEN, RefusedError

_signal: Any = importlib.import_module("_signal")
_DEFAULT, _IGNORE = int(_signal.SIG_DFL), int(_signal.SIG_IGN)
_HARMLESS = (_signal.SIGCHLD, _signal.SIGCONT, _signal.SIGURG, _signal.SIGWINCH)
_native_kill, _native_killpg = posix.kill, posix.killpg

_handlers: dict[int, Any] = {int(_signal.SIGINT): _signal.default_int_handler, int(_signal.SIGPIPE): _IGNORE}
_wakeup_number = -1
_timer_generation = 0
_timer_interval_ns = 0


def signal(signalnum: int, handler: Any, /) -> Any:
    number = _valid(signalnum)
    if passage.current() != passage.MAIN_THREAD:
        raise ValueError("signal only works in main thread of the main interpreter")
    if handler not in (_DEFAULT, _IGNORE) and not callable(handler):
        raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
    if number in (_signal.SIGKILL, _signal.SIGSTOP):
        raise system_error(errno.EINVAL)
    former = getsignal(number)
    _handlers[number] = handler
    return former


def getsignal(signalnum: int, /) -> Any:
    return _handlers.get(_valid(signalnum), _DEFAULT)


def _valid(signalnum: int) -> int:
    number = int(signalnum)
    if not 1 <= number < _signal.NSIG:
        raise ValueError("signal number out of range")
    return number


def set_wakeup_fd(fd: int, *, warn_on_full_buffer: bool = True) -> int:
    global _wakeup_number
    former, _wakeup_number = _wakeup_number, fd
    return former


def raise_signal(signalnum: int, /) -> None:
    _send(_valid(signalnum))


def kill(pid: int, signal: int, /) -> None:
    if not passage.current() or pid != identity.process_id():
        if passage.current():
            raise RefusedError("os.kill", "signals to other processes would be sent by every replica")
        _native_kill(pid, signal)
    elif signal:
        _send(_valid(signal))


def _send(number: int) -> None:
    handler = getsignal(number)
    if handler == _IGNORE:
        return
    if handler == _DEFAULT:
        if number not in _HARMLESS:
            exit_now(128 + number)
        return
    main = passage.current() == passage.MAIN_THREAD
    if passage.ordered and not main:
        raise RefusedError("a signal from another thread", f"its moment is nobody's order: {USE_TOKEN}")
    if not passage.ordered:
        expect_signals()
    passage.interrupt_main(lambda: _handle(number, handler))
    if main:
        passage.interrupt()
    else:
        passage.call(Unpark(passage.MAIN_THREAD))


def _handle(number: int, handler: Callable[[int, Any], object]) -> None:
    if _wakeup_number >= 0 and table.get(_wakeup_number) is not None:
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            write(_wakeup_number, bytes((number,)))
    handler(number, None)


def alarm(seconds: int, /) -> int:
    former = setitimer(_signal.ITIMER_REAL, seconds)[0]
    return int(former + 0.999)


def setitimer(which: int, seconds: float, interval: float = 0.0, /) -> tuple[float, float]:
    """What was left of the former timer is not known: 0."""
    global _timer_generation, _timer_interval_ns
    if which != _signal.ITIMER_REAL:
        raise RefusedError("setitimer", "only ITIMER_REAL is virtual")
    _timer_generation += 1
    _timer_interval_ns = int(interval * 1e9)
    if seconds:
        if passage.ordered:
            raise RefusedError("setitimer", f"its moment is nobody's order: {USE_TOKEN}")
        expect_signals()
        generation, first_ns = _timer_generation, int(seconds * 1e9)
        passage.port().spawn(lambda: _tick(generation, first_ns))
    return (0.0, 0.0)


def _tick(generation: int, wait_ns: int) -> None:
    while wait_ns:
        passage.call(Sleep(wait_ns))
        if generation != _timer_generation:
            return
        _send(int(_signal.SIGALRM))
        wait_ns = _timer_interval_ns


def getitimer(which: int, /) -> tuple[float, float]:
    return (0.0, _timer_interval_ns / 1e9)


def pthread_sigmask(how: int, mask: Any, /) -> set[int]:
    return set()


def siginterrupt(signalnum: int, flag: bool, /) -> None:
    _valid(signalnum)


def interrupt_main(signum: int = _signal.SIGINT, /) -> None:
    _send(_valid(signum))


def pthread_kill(thread_id: int, signalnum: int, /) -> None:
    if signalnum:
        _send(_valid(signalnum))


def sigpending() -> set[int]:
    return set()


def replacements() -> dict[str, dict[str, object]]:
    calls = (
        signal,
        getsignal,
        set_wakeup_fd,
        raise_signal,
        alarm,
        setitimer,
        getitimer,
        pthread_sigmask,
        siginterrupt,
        pthread_kill,
        sigpending,
    )
    return {
        "_signal": {function.__name__: function for function in calls},
        "posix": {"kill": kill},
        "_thread": {"interrupt_main": interrupt_main},
    }
