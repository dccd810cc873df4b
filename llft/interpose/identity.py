"""Who and where the program is: what the primary said at the program's birth, everywhere and for ever.

A program that fails over to another host must not notice by its name. What changes by itself (load, usage)
is asked every time.
"""

from __future__ import annotations

import _socket
import posix
import resource
from collections.abc import Callable
from typing import Any

from llft.interpose import passage
from llft.interpose.asking import ask, asking

_native_uname = posix.uname
_native_affinity = posix.sched_getaffinity

_LASTING: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "getpid": (posix.getpid, int),
    "getppid": (posix.getppid, int),
    "gethostname": (_socket.gethostname, str),
    "cpu_count": (posix.cpu_count, lambda value: value),
    "uname": (lambda: tuple(_native_uname()), posix.uname_result),
}
_natives: dict[str, Callable[[], Any]] = {name: native for name, (native, _) in _LASTING.items()}
_natives["uname"] = _native_uname
_known: dict[str, Any] = {}


def remember() -> None:
    """At birth, once."""
    for name, (native, shape) in _LASTING.items():
        _known[name] = shape(ask(name, native))


def process_id() -> int:
    pid: int = _known["getpid"]
    return pid


def _lasting(name: str) -> Callable[[], Any]:
    native = _natives[name]

    def known() -> Any:
        return _known[name] if passage.current() else native()

    known.__name__ = name
    return known


def sched_getaffinity(pid: int, /) -> set[int]:
    """As many processors as there were at birth: pools are sized by it."""
    return set(range(_known["cpu_count"] or 1)) if passage.current() else _native_affinity(pid)


def replacements() -> dict[str, dict[str, object]]:
    lasting = {name: _lasting(name) for name in _LASTING}
    changing: dict[str, object] = {
        "times": asking("times", posix.times, posix.times_result),
        "getloadavg": asking("getloadavg", posix.getloadavg),
        "get_terminal_size": asking("get_terminal_size", posix.get_terminal_size, posix.terminal_size),
        "getlogin": asking("getlogin", posix.getlogin),
    }
    own = {name: function for name, function in lasting.items() if name != "gethostname"}
    return {
        "posix": own | changing | {"sched_getaffinity": sched_getaffinity},
        "_socket": {"gethostname": lasting["gethostname"]},
        "resource": {"getrusage": asking("getrusage", resource.getrusage, resource.struct_rusage)},
    }
