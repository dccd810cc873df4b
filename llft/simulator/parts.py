"""The real parts that the world is built from, looked up late.

The world knows cores and programs only by their protocols (`interfaces.Core`, `interfaces.Program`); tests
of the world itself put fakes in their place.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from llft.config import GroupConfig
from llft.identifiers import BirthId
from llft.simulator.interfaces import Core, Program
from llft.simulator.topology import GroupSpec


def make_replica(
    config: GroupConfig, birth_id: BirthId, local_clock: Callable[[int], int], rng: random.Random
) -> Core:
    from llft.core.replica import Replica

    return Replica(config, birth_id, local_clock=local_clock, random=rng)


def make_program(spec: GroupSpec) -> Program:
    from llft.simulator.workloads import build_program

    return build_program(
        spec.kind,
        group_id=spec.group_id,
        servers=spec.servers,
        requests=spec.requests,
        variant=spec.variant,
    )
