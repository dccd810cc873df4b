"""Clocks: every reading is the group's (D-18); waits run on real time.

time, monotonic, perf_counter and the CPU clocks are readings of group clocks by their Linux clock id. The
CPU time of one thread means nothing across replicas: thread_time reads the process's. `datetime` is an
immutable C type that other C code knows by identity, so its `now` and `utcnow` are replaced inside the
type.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import time
from collections.abc import Callable
from typing import Any

from llft.core.determinizer.operations import Park, ReadClock, Sleep
from llft.interpose import counting, passage
from llft.interpose.locks import interruptible, monotonic_ns
from llft.interpose.refusing import RefusedError

REALTIME, MONOTONIC, PROCESS, THREAD = 0, 1, 2, 3
_COARSE = {5: REALTIME, 6: MONOTONIC, 4: MONOTONIC, 7: MONOTONIC, THREAD: PROCESS}
_KNOWN = (REALTIME, MONOTONIC, PROCESS, *_COARSE)
_natives: dict[str, Callable[..., Any]] = {name: getattr(time, name) for name in dir(time) if name[0] != "_"}
_datetime: Any = importlib.import_module("_datetime")


def _reading(clock_id: int) -> int:
    value = counting.reading(clock_id)
    return _ordered_reading(clock_id) if value is None else value


def _ordered_reading(clock_id: int) -> int:
    value = passage.call(ReadClock(clock_id))
    assert isinstance(value, int)
    return value


def clock_ns(name: str, clock_id: int) -> Callable[[], int]:
    native: Callable[[], int] = _natives[name]

    def read() -> int:
        return _ordered_reading(clock_id) if passage.current() else native()

    return counting.function(name, read)


def clock(name: str, clock_id: int) -> Callable[[], float]:
    native: Callable[[], float] = _natives[name]

    def read() -> float:
        return _ordered_reading(clock_id) / 1e9 if passage.current() else native()

    return counting.function(name, read)


def clock_gettime_ns(clk_id: int, /) -> int:
    if not passage.current():
        return int(_natives["clock_gettime_ns"](clk_id))
    if clk_id not in _KNOWN:
        raise RefusedError(f"clock {clk_id}", "use CLOCK_REALTIME or CLOCK_MONOTONIC")
    return _reading(_COARSE.get(clk_id, clk_id))


def clock_gettime(clk_id: int, /) -> float:
    return clock_gettime_ns(clk_id) / 1e9


def sleep(secs: float, /) -> None:
    thread = passage.current()
    if not thread:
        _natives["sleep"](secs)
        return
    if secs < 0:
        raise ValueError("sleep length must be non-negative")
    duration_ns = int(secs * 1_000_000_000)
    if not duration_ns:
        passage.yield_turn()
    elif thread == passage.MAIN_THREAD and interruptible():
        _sleep_interruptibly(duration_ns)
    else:
        passage.call(Sleep(duration_ns))


def _sleep_interruptibly(duration_ns: int) -> None:
    """Signal handlers run in between, and the sleep goes on."""
    end_ns = monotonic_ns() + duration_ns
    while passage.call(Park(duration_ns)):
        duration_ns = max(0, end_ns - monotonic_ns())


def _of_now(name: str) -> Callable[..., Any]:
    """localtime and gmtime: of the group's time if none is given."""
    native = _natives[name]

    def converted(seconds: float | None = None, /) -> Any:
        return native(_now() if seconds is None else seconds)

    return converted


def _now() -> float:
    return _reading(REALTIME) / 1e9 if passage.current() else _natives["time"]()


def ctime(seconds: float | None = None, /) -> str:
    text: str = _natives["ctime"](_now() if seconds is None else seconds)
    return text


def asctime(parts: Any = None, /) -> str:
    text: str = _natives["asctime"](_natives["localtime"](_now()) if parts is None else parts)
    return text


def strftime(format: str, parts: Any = None, /) -> str:  # noqa: A002
    text: str = _natives["strftime"](format, _natives["localtime"](_now()) if parts is None else parts)
    return text


def _datetime_now(cls: Any, tz: Any = None) -> Any:
    now_ns = _reading(REALTIME) if passage.current() else _natives["time_ns"]()
    return cls.fromtimestamp(now_ns // 10**9, tz).replace(microsecond=now_ns % 10**9 // 1000)


def _datetime_utcnow(cls: Any) -> Any:
    return _datetime_now(cls, _datetime.timezone.utc).replace(tzinfo=None)


def replace_in_type(kind: type, name: str, value: object) -> None:
    """Change an immutable type's own dictionary. Its identity stays, so C code sees the change too."""
    entries: dict[str, object] = gc.get_referents(kind.__dict__)[0]
    entries[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def replace_datetime() -> None:
    replace_in_type(_datetime.datetime, "now", classmethod(_datetime_now))
    replace_in_type(_datetime.datetime, "utcnow", classmethod(_datetime_utcnow))


def replacements() -> dict[str, dict[str, object]]:
    ids = {"time": REALTIME, "monotonic": MONOTONIC, "perf_counter": MONOTONIC}
    ids |= {"process_time": PROCESS, "thread_time": PROCESS}
    clocks: dict[str, object] = {name: clock(name, clock_id) for name, clock_id in ids.items()}
    clocks |= {f"{name}_ns": clock_ns(f"{name}_ns", clock_id) for name, clock_id in ids.items()}
    others = (clock_gettime, clock_gettime_ns, sleep, ctime, asctime, strftime)
    clocks |= {function.__name__: function for function in others}
    clocks |= {name: _of_now(name) for name in ("localtime", "gmtime")}
    return {"time": clocks}
