"""A process held as a debugger holds it: as silent as on a host that is cut off.

It is not stopped by a signal, so its kernel does not say so to those who ask (D-73), and it is not dead: what
is left to find it out is a timeout. Needs the right to trace it, as a parent's parent or root has it.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from llft.errors import MisuseError

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_ALL_CHILDREN = 0x40000000
"""__WALL, for waitpid: threads, too."""


class Silence:
    """From `begin` to `end`, both called by one thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._held: dict[int, None] = {}
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self._library.ptrace.restype = ctypes.c_long

    def begin(self) -> None:
        """All its threads, those that are begun meanwhile among them."""
        while new := [number for number in self._threads() if number not in self._held]:
            for number in new:
                self._hold(number)

    def end(self) -> None:
        """Once more, if it was killed meanwhile and is not gone yet."""
        for number in list(self._held):
            with suppress(OSError):
                self._ask(_DETACH, number)
                del self._held[number]
                continue
            with suppress(ChildProcessError):  # it has been killed: it is not gone before we have heard of it
                if not os.waitpid(number, _ALL_CHILDREN | os.WNOHANG)[0]:
                    continue
            del self._held[number]

    def _threads(self) -> list[int]:
        return [int(name) for name in os.listdir(f"/proc/{self._pid}/task")]

    def _hold(self, number: int) -> None:
        try:
            self._ask(_SEIZE, number)
            self._ask(_INTERRUPT, number)
            os.waitpid(number, _ALL_CHILDREN)
        except ProcessLookupError:
            return  # that thread has ended
        except OSError as error:
            raise MisuseError("not-to-be-held", "it needs the right to trace", why=error.strerror) from None
        self._held[number] = None

    def _ask(self, request: int, number: int) -> None:
        if self._library.ptrace(request, number, None, None):
            failed = ctypes.get_errno()
            raise OSError(failed, os.strerror(failed))
