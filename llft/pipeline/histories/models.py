"""Objects as sequential specifications.

A model is a state to begin with and a function: given the state, an operation and the result that a client
has, the state afterwards, or None if no sequential execution gives that result there. A result of None: the
client has none, so any will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llft.errors import PeerError

State = Any
"""Hashable: the search remembers where it has been."""
Apply = Callable[[State, str, str | None], State | None]


class Model(NamedTuple):
    initial: State
    apply: Apply
    has_holes: bool
    """Whether others, whose calls nobody recorded, may have operated on the object in between."""


def _apply_account(state: State, operation: str, result: str | None) -> State | None:
    """`ADD amount` answers how many there were, and the balance: the server of the demonstration."""
    count, balance = state
    after = (count + 1, balance + int(operation.split()[1]))
    return after if result in (None, f"{after[0]} {after[1]}") else None


def _apply_tickets(state: State, operation: str, result: str | None) -> State | None:
    """`TAKE` answers a number that is larger than every one before: the operations of a simulated bank."""
    if result is None:
        return state
    return int(result) if int(result) > state else None


MODELS = {
    "account": Model((0, 0), _apply_account, has_holes=False),
    "tickets": Model(0, _apply_tickets, has_holes=True),
}


def model_of(target: str) -> Model:
    name = target.partition(":")[0]
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise PeerError("unknown-model", f"a target begins with one of {known}", target=target)
    return MODELS[name]
