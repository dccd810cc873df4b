"""Seeds that once found something. They are run for ever; none is removed.

A seed draws its world from the code as it is, so a change of the simulator may make an old entry harmless;
it costs a second and stays all the same. What was found becomes a script of its own as well, where it can
be told in a few steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Regression(NamedTuple):
    profile: str
    seed: int
    options: dict[str, Any]
    """Of SimulationOptions, other than the profile."""
    found: str


REGRESSIONS: list[Regression] = [
    Regression("default", 0, {}, "buffers: messages stayed in the sent lists of a server at rest"),
    Regression("default", 2, {}, "exactly_once: messages of a server were missing from its journals"),
    Regression("default", 3, {}, "resets: a connection was reset though no fault explained it"),
    Regression("default", 4, {}, "buffers: messages stayed in the received lists of a client's backups"),
]
