"""What a supervisor is to run, and the environment that it gives to each process.

A process is told everything by one variable, LLFT_SPEC, a JSON object (docs/RUNTIME.md). PYTHONHASHSEED is 0
because replicas must iterate over sets alike.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llft.past.history import Past
from llft.runtime.own_directory import DATA
from llft.runtime.state.choice import CONFIGURED, WITHOUT_IMAGES
from llft.runtime.supervisor.data import data_of
from llft.runtime.supervisor.program import Program
from llft.runtime.supervisor.run_directory import RunDirectory
from llft.runtime.supervisor.slot import Slot

REPLICA_MODULE = "llft.cli.replica_process"
GATEWAY_MODULE = "llft.cli.gateway_process"


@dataclass(frozen=True, slots=True)
class Plan:
    """One group on this host."""

    group: str
    group_id: int
    program: Program
    replicas: int
    library: Path
    """The directory for PYTHONPATH that holds LLFT."""
    settings: dict[str, Any] = field(default_factory=dict)
    endpoints: dict[str, int] = field(default_factory=dict)
    """Addresses that other groups serve, with their group ids."""
    founds: bool = True
    """False: the group was founded on another host, and is joined."""
    local: bool = True
    """No member can be on another host."""
    gateway: bool = True
    first_replica: int = 1
    without_images: str = CONFIGURED
    """Why states are no images (D-63); "": they may be, so replicas are at addresses that are not random."""
    durable: bool = False
    """Every replica keeps its history on disk; `sync`: each write waits for the disk."""
    sync: bool = False
    past: Past | None = None
    """The history from which the group goes on."""
    data: str = ""
    """The path of the data directory; "": there is none."""
    head_start_s: float = 3.0
    """Of the founder before the others, unless its program listens earlier."""
    replica_module: str = REPLICA_MODULE
    gateway_module: str = GATEWAY_MODULE


def environment_of(
    plan: Plan, directory: RunDirectory, slot: Slot, *, founds: bool, past: Past | None = None
) -> dict[str, str]:
    """The environment of a new process in this slot; `past`: what the group goes on from, if it does."""
    environment = dict(os.environ)
    environment["PYTHONHASHSEED"] = "0"
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment["PYTHONPATH"] = os.pathsep.join([*paths, str(plan.library)])
    specification = _specification(plan, directory, slot, founds=founds)
    if past is not None:
        specification |= {
            "restore": past.directory if founds else "",
            "generation": past.heading.generation + 1,
        }
    environment["LLFT_SPEC"] = json.dumps(specification)
    return environment


def _specification(plan: Plan, directory: RunDirectory, slot: Slot, *, founds: bool) -> dict[str, Any]:
    common: dict[str, Any] = {
        "group": plan.group,
        "group_id": plan.group_id,
        "run_directory": str(directory.path),
        "settings": plan.settings,
        "endpoints": plan.endpoints,
        slot.kind: slot.number,
    }
    if slot.kind == "gateway":
        return {**common, "journal": str(directory.journal)}
    own: dict[str, Any] = {
        "temporary": str(directory.temporary(slot.name)),
        "program": list(plan.program.words),
        WITHOUT_IMAGES: plan.without_images,
    }
    if plan.data:
        own[DATA] = data_of(directory.data, plan.data, slot.name)
    if plan.durable:
        own |= {"durable": str(directory.durable / slot.name), "sync": plan.sync}
    return {**common, **own, "alone": founds, "may_found": founds}
