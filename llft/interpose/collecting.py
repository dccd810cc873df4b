"""Garbage collection at points that follow from the program, for destructors are visible to it.

The interpreter's own collections depend on how much was allocated, by the runtime too. They are off; the
oldest of three generations is collected rarely, the youngest whenever a check point's allowance is used up.

In ordered mode there are no such points: what is garbage depends on how far the other threads are. There a
collection is each replica's own business, and a descriptor that is left to it stays open (`is_collecting`): a
close that only one replica makes would be out of order. Destructors of the program's own that call something
are found out, as every call out of order is.
"""

from __future__ import annotations

import gc
from typing import Any

from llft import originals
from llft.interpose import passage

_native_collect = gc.collect
_native_disable = gc.disable
_MIDDLE_EVERY, _OLDEST_EVERY = 8, 64

_enabled = True
_count = 0
_collecting: set[int] = set()
_told = False
_threshold: tuple[int, ...] = gc.get_threshold()


def begin() -> None:
    _native_disable()
    _native_collect()
    gc.freeze()  # what there is before the program is ours, and stays
    passage.at_allowance(_collect_some)


def _collect_some() -> None:
    global _count
    _count += 1
    if _enabled:
        _collect(2 if _count % _OLDEST_EVERY == 0 else 1 if _count % _MIDDLE_EVERY == 0 else 0)


def _collect(generation: int) -> None:
    me = originals.get_ident()
    _collecting.add(me)
    try:
        _native_collect(generation)
    finally:
        _collecting.discard(me)


def is_collecting() -> bool:
    """Whether what this thread does is a destructor's doing, at a point that no other replica shares."""
    return passage.ordered and originals.get_ident() in _collecting


def tell_left_open(number: int) -> None:
    """Once: there may be many."""
    global _told
    if not _told:
        _told = True
        text = f"llft: descriptor {number} was left to the garbage collector and stays open; close it\n"
        originals.write(2, text.encode())


def enable() -> None:
    global _enabled
    _enabled = True


def disable() -> None:
    global _enabled
    _enabled = False


def isenabled() -> bool:
    return _enabled


def collect(generation: int = 2) -> int:
    """How many objects were unreachable includes the runtime's own: the program is told 0."""
    _collect(generation)
    return 0


def get_count() -> tuple[int, int, int]:
    return (0, 0, 0)


def get_stats() -> list[dict[str, int]]:
    return [{"collections": 0, "collected": 0, "uncollectable": 0} for _ in range(3)]


def get_threshold() -> tuple[int, ...]:
    return _threshold


def set_threshold(*thresholds: Any) -> None:
    """Remembered; 0 means never, as it does to the interpreter."""
    global _threshold, _enabled
    _threshold = (*thresholds, *_threshold[len(thresholds) :])
    _enabled = bool(_threshold[0])


def replacements() -> dict[str, dict[str, object]]:
    calls = (enable, disable, isenabled, collect, get_count, get_stats, get_threshold, set_threshold)
    return {"gc": {function.__name__: function for function in calls}}
