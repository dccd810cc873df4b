"""How many more frames the interpreter allows a thread: read where the interpreter itself keeps it.

A program may call anything near its recursion limit, and a step of the core must not fail half-way. No
function of Python's tells the depth of the stack in less than a microsecond, and every call asks. The state
of the thread has the number; where, depends on the version, so it is looked for once: the place that
counts down by one for each frame. If it is nowhere, the frames are counted.
"""

from __future__ import annotations

import ctypes
from sys import _getframe, getrecursionlimit
from typing import Protocol

_FIRST, _LAST, _STEP = 24, 96, 4
"""Three pointers, then numbers, in all versions so far."""
_FRAMES_PER_CALL = 2
"""At most, where calls through C count as well and frames are all that is seen."""

_state = ctypes.pythonapi.PyThreadState_Get
_state.restype = ctypes.c_void_p
_state.argtypes = []


class Room(Protocol):
    """`value`: so many frames are left to the thread for which it was made."""

    @property
    def value(self) -> int: ...


class _Counted:
    """Of the calling thread, with the frames of whoever asks."""

    @property
    def value(self) -> int:
        frames, frame = 0, _getframe()
        while frame.f_back is not None:
            frames, frame = frames + 1, frame.f_back
        return getrecursionlimit() - _FRAMES_PER_CALL * frames


def of_this_thread() -> Room:
    if _OFFSET < 0:
        return _Counted()
    return ctypes.c_int.from_address((_state() or 0) + _OFFSET)


def _below(room: Room, levels: int) -> int:
    return room.value if levels == 0 else _below(room, levels - 1)


def _counts_frames(room: Room) -> bool:
    here = room.value
    below = [_below(room, 0), _below(room, 3), _below(room, 7)]  # a generator would be one more frame
    return 0 < here < getrecursionlimit() and below == [here - 1, here - 4, here - 8]


def _find() -> int:
    address = _state() or 0
    for offset in range(_FIRST, _LAST, _STEP):
        if _counts_frames(ctypes.c_int.from_address(address + offset)):
            return offset
    return -1


_OFFSET = _find()
