"""What a planted bug is, and how it is planted: from outside, and without a trace left behind.

A patch replaces one attribute of a class or module of the core by what its `slip` makes of the original.
Laws:

1. Production code has no branch for a plant and knows of none.
2. A patch that no longer fits (the core has no such attribute any more) is an error at once: a
   plant that silently plants nothing would be reported as a hole in the checkers.
3. What was replaced is put back whatever happens, the very object that was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from llft.errors import MisuseError

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
    """The first seed in `profile` at which the checkers find it."""
    profile: str = "default"
    """Under which it shows best."""


@contextmanager
def applied(plant: Plant) -> Iterator[None]:
    """Plant, and put back. Objects made meanwhile keep the bug; they are not to be used afterwards."""
    originals: list[tuple[Any, str, Any]] = []
    try:
        for owner, attribute, slip in plant.patches:
            if attribute not in vars(owner):
                raise MisuseError(
                    "plant_does_not_fit", "fit the plant to the core", plant=plant.name, attribute=attribute
                )
            original = vars(owner)[attribute]
            originals.append((owner, attribute, original))
            setattr(owner, attribute, slip(original))
        yield
    finally:
        for owner, attribute, original in reversed(originals):
            setattr(owner, attribute, original)


def does_nothing(original: Any) -> Any:
    """The call was forgotten."""
    return lambda *arguments, **named: None


def returns(value: Any) -> Slip:
    """The answer is always the same."""
    return lambda original: lambda *arguments, **named: value
