"""The process that asyncio thinks its loops run in.

It remembers each thread's running loop together with the system's process id (in C: `_asyncio`,
PyRunningLoopHolder), so that a forked child does not think that it has one. In a process restored from an
image the id is another one, and the loop would be denied. So it is put right in every thread. Where things
are in the interpreter's structures depends on its version; it is looked for, and nothing is written where
the old id is not found.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from llft.errors import UnsupportedOperationError

KEY = "__asyncio_running_event_loop__"
_STATE_BYTES = 512
_WORD = 8
_PID_AT = 3 * _WORD
"""After the object's count and type, and the loop."""

_api = ctypes.pythonapi
_own_state, _own_dict = _api.PyThreadState_Get, _api.PyThreadState_GetDict
_interpreter, _first, _next = (
    _api.PyInterpreterState_Get,
    _api.PyInterpreterState_ThreadHead,
    _api.PyThreadState_Next,
)
for _function in (_own_state, _own_dict, _interpreter, _first, _next):
    _function.restype = ctypes.c_void_p
_own_state.argtypes = _own_dict.argtypes = _interpreter.argtypes = []
_first.argtypes = _next.argtypes = [ctypes.c_void_p]


def move(old_pid: int, new_pid: int) -> None:
    """Of all threads. The interpreter's lock is held, for this is Python."""
    for holder in _holders():
        place = ctypes.c_int.from_address(id(holder) + _PID_AT)
        if place.value != old_pid:
            raise UnsupportedOperationError(
                "running_loop_unknown", "use another version of Python, or no images", found=place.value
            )
        place.value = new_pid


def _holders() -> Iterator[Any]:
    offset = _dict_offset()
    state = _first(_interpreter())
    while state:
        address = ctypes.c_void_p.from_address(state + offset).value
        if address:
            holder = ctypes.cast(address, ctypes.py_object).value.get(KEY)
            if holder is not None:
                yield holder
        state = _next(state)


def _dict_offset() -> int:
    """In a thread's state: where the dictionary of the calling thread stands in its own."""
    wanted, state = _own_dict(), _own_state()
    for offset in range(0, _STATE_BYTES, _WORD):
        if ctypes.c_void_p.from_address(state + offset).value == wanted:
            return offset
    raise UnsupportedOperationError("thread_state_unknown", "use another version of Python, or no images")
