"""What a planted bug is, and how it is planted: from outside, and without a trace left behind.

A patch replaces one attribute of a class or module of the core by what its `slip` makes of the original.
Laws:

1. Production code has no branch for a plant and knows of none.
2. A patch that no longer fits (the core has no such attribute any more, or calls it with other parameters)
   is an error at once: a plant that plants nothing would pass for a hole in the checkers, and
   one that raises TypeError for a bug that was found.
3. What was replaced is put back whatever happens, the very object that was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any, NamedTuple

from llft.errors import MisuseError
from llft.lane import choice

Slip = Callable[[Any], Any]
"""From the original function to the one with the bug."""


class Patch(NamedTuple):
    owner: Any
    """A class, or a module that looks the name up when it calls."""
    attribute: str
    slip: Slip


class Plant(NamedTuple):
    name: str
    description: str
    """What the slip is, and what it breaks."""
    patches: tuple[Patch, ...]
    seed: int = 0
    """A seed of `profile` at which the checkers found it; it goes stale when the core changes."""
    profile: str = "default"
    """Under which it shows best."""


@contextmanager
def applied(plant: Plant) -> Iterator[None]:
    """Plant, and put back. Objects made meanwhile keep the bug; they are not to be used afterwards."""
    if choice.in_use() == "compiled":
        raise MisuseError(
            "plants_need_the_reference_lane", f"set {choice.VARIABLE}=reference", plant=plant.name
        )
    originals: list[tuple[Any, str, Any]] = []
    try:
        for owner, attribute, slip in plant.patches:
            if attribute not in vars(owner):
                raise _unfit(plant, attribute)
            original = vars(owner)[attribute]
            replacement = slip(original)
            if not _fits(original, replacement):
                raise _unfit(plant, attribute)
            originals.append((owner, attribute, original))
            setattr(owner, attribute, replacement)
        yield
    finally:
        for owner, attribute, original in reversed(originals):
            setattr(owner, attribute, original)


def _fits(original: Any, replacement: Any) -> bool:
    """The same parameters, or any."""
    taken = signature(replacement).parameters
    if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in taken.values()):
        return True
    return list(taken) == list(signature(original).parameters)


def _unfit(plant: Plant, attribute: str) -> MisuseError:
    remedy = "fit the plant to the core"
    return MisuseError("plant_does_not_fit", remedy, plant=plant.name, attribute=attribute)


def does_nothing(original: Any) -> Any:
    """The call was forgotten."""
    return lambda *arguments, **named: None


def returns(value: Any) -> Slip:
    """The answer is always the same."""
    return lambda original: lambda *arguments, **named: value
