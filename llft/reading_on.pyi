from collections.abc import Callable
from typing import Any

def function(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """The program's function of this name: what it cannot do in a run it does the usual way."""

def reading(clock_id: int) -> int | None:
    """None: it goes the usual way."""

def nothing(fd: int) -> bool:
    """A read of this descriptor that does not wait finds nothing. False: it goes the usual way."""

def open_live(ident: int, limit: int, clocks: tuple[int, int, int, int, int, int], idle: int) -> None:
    """Lend a native thread so many calls. `clocks`: offset and last reading of each. `idle`: a descriptor
    that has nothing to be read, or -1."""

def open_log(ident: int, codes: bytes, values: list[Any]) -> None:
    """Lend it what the log says of its next calls."""

def is_open() -> bool: ...
def close() -> tuple[bytes, list[Any], tuple[int, int, int]] | None:
    """What was called: codes, results, and the local clocks when they were read last."""

def begin(waiting: list[Any], calls_max: int) -> None: ...
def called() -> bool: ...
def calls() -> int: ...
def set_calls(count: int) -> None: ...
