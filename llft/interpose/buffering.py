"""Buffered files on sockets, safe under the token.

A C buffered reader has a lock of its own, and holds it while it reads from its socket. A thread that waits
there has given the token away; another one that touches the same file (to close it, say) would wait for
that lock natively, with the token in its hand, and nothing would ever run again. So socket.makefile gets
readers and writers that let one thread in at a time and park the others.
"""

from __future__ import annotations

import _io
from collections.abc import Callable
from types import ModuleType
from typing import Any

from llft.interpose import passage

_READING = ("read", "read1", "readinto", "readinto1", "readline", "readlines", "peek", "__next__")
_WRITING = ("write", "writelines")
_BOTH = ("flush", "close", "detach", "seek", "truncate")


class _Turns:
    """Who is inside. The program's threads only; others are not kept apart."""

    _inside = 0

    def _enter(self, me: int) -> None:
        while self._inside:
            waiting: list[int] = self.__dict__.setdefault("_waiting", [])
            waiting.append(me)
            try:
                passage.park(-1)
            except BaseException:  # a signal's handler raised: if it is this one's turn, it is the next one's
                if me not in waiting and not self._inside:
                    self._leave()
                raise
            finally:
                if me in waiting:
                    waiting.remove(me)
        self._inside = me

    def _leave(self) -> None:
        self._inside = 0
        waiting = self.__dict__.get("_waiting")
        if waiting:
            passage.unpark(waiting.pop(0))


def _one_at_a_time(method: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: Any, *arguments: Any) -> Any:
        me = passage.current()
        if self._inside == me:
            return method(self, *arguments)
        self._enter(me)
        try:
            return method(self, *arguments)
        finally:
            self._leave()

    guarded.__name__ = method.__name__
    return guarded


def _guarded(base: type, names: tuple[str, ...]) -> type:
    methods = {name: _one_at_a_time(getattr(base, name)) for name in names if hasattr(base, name)}
    return type(base.__name__, (_Turns, base), {**methods, "__module__": "io"})


def guard_files_of(module: Any) -> None:
    """`socket`, when the program has imported it: its makefile makes guarded files."""
    guarded = ModuleType("io")
    guarded.__dict__.update(vars(module.io))
    kinds = {
        "BufferedReader": _guarded(_io.BufferedReader, _READING + _BOTH),
        "BufferedWriter": _guarded(_io.BufferedWriter, _WRITING + _BOTH),
        "BufferedRWPair": _guarded(_io.BufferedRWPair, _READING + _WRITING + _BOTH),
    }
    guarded.__dict__.update(kinds)
    module.io = guarded
