"""Threads: real ones, started by the port, numbered in the order of their creation.

A thread's identifier is its number, so Thread names, idents and whatever is kept by them are alike at all
replicas. When its function has returned, and while it still has the token, a thread releases its sentinel
(which joiners wait for) and drops its thread-local data and context variables: left to the interpreter,
their destructors would run after the thread has given the token back.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
from _contextvars import Context
from collections.abc import Callable, Mapping
from typing import Any

from llft import originals
from llft.interpose import hashing, ordered_locks, passage
from llft.interpose.locks import Lock, RLock, new_lock
from llft.interpose.ordered_locks import OrderedLock
from llft.interpose.refusing import RefusedError

_native_id = _thread.get_native_id
_native_sentinel = _thread._set_sentinel  # type: ignore[attr-defined]
_native_count = _thread._count
_native_stack_size = _thread.stack_size

_sentinels: dict[int, Any] = {}
_running_count = 1

_thread_dict = ctypes.pythonapi.PyThreadState_GetDict
_thread_dict.restype = ctypes.c_void_p


def start_new_thread(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, /
) -> int:
    if not passage.current():
        return originals.start_new_thread(function, args, dict(kwargs or {}))
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    global _running_count
    _running_count += 1
    work: list[Any] = [function, args, dict(kwargs or {})]
    return passage.port().spawn(lambda: _run(work))


def _run(work: list[Any]) -> None:
    """`work` is emptied, so that nothing of the program's is kept alive beyond its own doing."""
    global _running_count
    kept = frozenset(_locals())
    try:
        Context().run(_invoke, work)
    finally:
        _drop_locals(kept)
        _running_count -= 1
        sentinel = _sentinels.pop(passage.current(), None)
        if sentinel is not None and sentinel.locked():
            sentinel.release()
        ordered_locks.thread_ended(passage.current())
        hashing.thread_ended(passage.current())


def _invoke(work: list[Any]) -> None:
    function, args, kwargs = work
    work.clear()
    try:
        function(*args, **kwargs)
    except SystemExit:
        return
    except BaseException as error:  # noqa: BLE001 (a thread's end is told, like the interpreter does)
        sys.excepthook(type(error), error, error.__traceback__)


def _locals() -> dict[Any, Any]:
    address = _thread_dict()
    found: dict[Any, Any] = ctypes.cast(address, ctypes.py_object).value if address else {}
    return found


def _drop_locals(kept: frozenset[Any]) -> None:
    """All but those that were there before the program's function began: they are the runtime's."""
    entries = _locals()
    for key in [key for key in entries if key not in kept]:
        entries.pop(key, None)


def running_count() -> int:
    return _running_count


def get_ident() -> int:
    return passage.current() or originals.get_ident()


def get_native_id() -> int:
    return passage.current() or _native_id()


def set_sentinel() -> Any:
    """Not acquired: threading acquires it; `_run` releases it at the thread's end."""
    thread = passage.current()
    if not thread:
        return _native_sentinel()
    _sentinels[thread] = new_lock()
    return _sentinels[thread]


def count() -> int:
    if passage.ordered and passage.current():
        raise RefusedError("_thread._count", "use threading.active_count")
    return _running_count - 1 if passage.current() else _native_count()


def replacements() -> dict[str, dict[str, object]]:
    lock = OrderedLock if passage.ordered else Lock
    return {
        "_thread": {
            "start_new_thread": start_new_thread,
            "start_new": start_new_thread,
            "allocate_lock": lock,
            "allocate": lock,
            "LockType": lock,
            "RLock": RLock,
            "get_ident": get_ident,
            "get_native_id": get_native_id,
            "_set_sentinel": set_sentinel,
            "_count": count,
        }
    }
