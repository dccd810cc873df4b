"""Hashes that do not depend on addresses: sets of objects are then in the same order at all replicas.

Objects hash by address unless their class says otherwise. Every class of an interposed source file that has
the default hash and equality, and allows weak references, gets a `__hash__` that counts: the n-th object
ever hashed has n. The number is kept beside the object, not in its __dict__, which programs print and send.
asyncio's Task and Future are C types, so they get subclasses.

It is done by a decorator that the import hook puts above all others (`ticking`). Doing it when the class is
built was rejected: dataclass and the enum decorators look whether a class has a `__hash__` of its own, and
equal objects would have got different hashes.

Not covered: objects with slots and no __weakref__, functions, classes, and objects of other C types. Their
sets have an order that is the interpreter's business; a divergence that comes of it is found by the
digests.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from llft.interpose import passage

NAME = "__llft_class__"

_object_hash = object.__hash__
_object_equality = object.__eq__
_numbers = itertools.count(1)
_numbers_by_thread: dict[int, int] = {}
_hashes: dict[int, tuple[int, weakref.ref[Any]]] = {}


def counted_hash(self: Any) -> int:
    key = id(self)
    known = _hashes.get(key)
    if known is not None:
        return known[0]
    number = _next_of_thread() if passage.ordered else next(_numbers)
    _hashes[key] = (number, weakref.ref(self, lambda _: _hashes.pop(key, None)))
    return number


def _next_of_thread() -> int:
    """In ordered mode: which of the objects it is that the thread was the first to hash."""
    thread = passage.current()
    number = _numbers_by_thread[thread] = _numbers_by_thread.get(thread, 0) + 1
    return hash((thread, number))


def counted() -> int:
    """The number that the next object will get."""
    details: Any = _numbers.__reduce__()
    number: int = details[1][0]
    return number


def count_from(number: int) -> None:
    """Numbers from this one on have not been given: whoever has one gets another when it is hashed next."""
    global _numbers
    if counted() > number:
        for key in [key for key, (given, _) in _hashes.items() if given >= number]:
            del _hashes[key]
    _numbers = itertools.count(number)


def thread_ended(thread: int) -> None:
    _numbers_by_thread.pop(thread, None)


counted_hash.__name__, counted_hash.__qualname__ = "__hash__", "object.__hash__"


def _hashes_by_address(kind: Any) -> bool:
    """Protocols are left alone: what a runtime protocol has counts as one of its members."""
    return (
        isinstance(kind, type)
        and not issubclass(kind, type)
        and not kind.__dict__.get("_is_protocol")
        and kind.__hash__ is _object_hash
        and kind.__eq__ is _object_equality
        and kind.__weakrefoffset__ > 0
    )


def class_defined(kind: Any) -> Any:
    """The outermost decorator of every class."""
    if _hashes_by_address(kind):
        type.__setattr__(kind, "__hash__", counted_hash)
    return kind


def _counting(base: type) -> type:
    return type(base.__name__, (base,), {"__hash__": counted_hash, "__module__": base.__module__})


def count_futures(module: Any) -> None:
    """asyncio.futures, when the program has imported it."""
    module.Future = module._CFuture = _counting(module.Future)


def count_tasks(module: Any) -> None:
    """asyncio.tasks."""
    module.Task = module._CTask = _counting(module.Task)
