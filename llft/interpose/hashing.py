"""Hashes that do not depend on addresses: sets of objects are then in the same order at all replicas.

Objects hash by address unless their class says otherwise. Every class that is defined under interposition,
has the default hash and equality, and allows weak references, gets a `__hash__` that counts: the n-th
object ever hashed has n. The number is kept beside the object, not in its __dict__, which programs print
and send. asyncio's Task and Future are C types, so they get subclasses.

Not covered: objects with slots and no __weakref__, functions, classes, and objects of other C types. Their
sets have an order that is the interpreter's business; a divergence that comes of it is found by the
digests.
"""

from __future__ import annotations

import builtins
import itertools
import weakref
from typing import Any

_build_class = builtins.__build_class__
_object_hash = object.__hash__
_object_equality = object.__eq__
_numbers = itertools.count(1)
_hashes: dict[int, tuple[int, weakref.ref[Any]]] = {}


def counted_hash(self: Any) -> int:
    key = id(self)
    known = _hashes.get(key)
    if known is not None:
        return known[0]
    number = next(_numbers)
    _hashes[key] = (number, weakref.ref(self, lambda _: _hashes.pop(key, None)))
    return number


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


def build_class(function: Any, name: str, *bases: Any, **keywords: Any) -> Any:
    kind = _build_class(function, name, *bases, **keywords)
    if _hashes_by_address(kind):
        try:
            kind.__hash__ = counted_hash
        except (AttributeError, TypeError):
            return kind  # its metaclass allows no new attributes
    return kind


def _counting(base: type) -> type:
    return type(base.__name__, (base,), {"__hash__": counted_hash, "__module__": base.__module__})


def replacements() -> dict[str, dict[str, object]]:
    import _asyncio

    futures: dict[str, object] = {name: _counting(getattr(_asyncio, name)) for name in ("Future", "Task")}
    return {"builtins": {"__build_class__": build_class}, "_asyncio": futures}
