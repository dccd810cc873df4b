"""Planted bugs: realistic slips of one line or two, each of which the checkers must find.

They answer the question that clean runs cannot: would the checkers notice? A plant patches the core from
outside (`plant` has the laws), so what is tested is the production code with one bug in it.

    llft simulate --seeds 0:20 --plant collect-sent-early

Slips that were tried and not found are not here. Not found in some dozens of seeds is not shown to be
harmless: another part of the protocol may make up for it, the seeds may be too few, or a checker blind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llft.errors import MisuseError
from llft.simulator.plants import execution, membership, messaging, ordering, pasts, restarts
from llft.simulator.plants.plant import Patch, Plant, applied

__all__ = ["PLANTS", "Patch", "Plant", "applied", "planted"]

_MODULES = (ordering, messaging, membership, execution, pasts, restarts)
PLANTS: dict[str, Plant] = {plant.name: plant for module in _MODULES for plant in module.PLANTS}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """The core has this bug while the context lasts. None: no bug."""
    if name is None:
        yield
        return
    if name not in PLANTS:
        raise MisuseError("unknown plant", f"choose one of {', '.join(PLANTS)}", name=name)
    with applied(PLANTS[name]):
        yield
