"""Plain values, operations and results as JSON, for the determinizer's part of a checkpoint.

JSON has no bytes and no tuples, and the difference matters to a program; so these travel as one-key
objects: {"b": hex}, {"t": [items]}, {"d": [[key, value], ...]}, {"o": [operation, fields...]} and
{"f": [name, definite]}. What has no form here (an arbitrary object as a thread's argument) is refused:
a checkpoint that silently lost it would be worse than none.
"""

from __future__ import annotations

import json
from typing import Any, Final, get_args

from llft.core.determinizer.operations import Claim, Connect, Failure, Operation, Receive, Select
from llft.errors import PeerError, UnsupportedOperationError

_OPERATIONS: dict[str, type] = {kind.__name__: kind for kind in get_args(Operation)}
_OPERATION_TYPES: Final = frozenset(_OPERATIONS.values())
_FIELDS_MIN: dict[type, int] = {Claim: 1, Connect: 1, Receive: 3, Select: 2}
"""How many fields are always there. The others are rarely used: left out if they have their defaults."""


def dump(state: dict[str, Any]) -> bytes:
    return json.dumps(to_plain(state), separators=(",", ":")).encode()


def load(data: bytes) -> dict[str, Any]:
    try:
        state = from_plain(json.loads(data))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise PeerError("determinizer_state_malformed", "ask for the state again", error=str(error)) from None
    if not isinstance(state, dict):
        raise PeerError("determinizer_state_malformed", "ask for the state again")
    return state


def to_plain(value: object) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, Failure):
        return {"f": list(value)}
    if type(value) in _OPERATION_TYPES:
        assert isinstance(value, tuple)
        return {"o": [type(value).__name__, *map(to_plain, _without_options(value))]}
    if type(value) is tuple:
        return {"t": [to_plain(item) for item in value]}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {"d": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    raise UnsupportedOperationError(
        "value_not_in_checkpoint", "give threads plain values as arguments", type=type(value).__name__
    )


def _without_options(operation: Any) -> tuple[object, ...]:
    fields, defaults = operation._fields, operation._field_defaults
    length = len(fields)
    least = _FIELDS_MIN.get(type(operation), length)
    while length > least and operation[length - 1] == defaults[fields[length - 1]]:
        length -= 1
    return tuple(operation[:length])


def from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag == "b":
        return bytes.fromhex(content)
    if tag == "f":
        return Failure(*content)
    if tag == "o":
        return _OPERATIONS[content[0]](*map(from_plain, content[1:]))
    if tag == "t":
        return tuple([from_plain(item) for item in content])
    if tag == "d":
        return {from_plain(key): from_plain(item) for key, item in content}
    raise ValueError(f"unknown tag {tag!r}")
