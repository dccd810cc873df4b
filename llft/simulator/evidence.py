"""What a run leaves for its judges: everything that was recorded, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llft.identifiers import BirthId, GroupId, Member, ViewId
from llft.journal.record import Record
from llft.simulator.faults import PerformedFault
from llft.simulator.options import SimulationOptions
from llft.simulator.profiles import Profile
from llft.simulator.topology import Topology


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A process as it was at the end, or when it died."""

    group_id: GroupId
    birth_id: BirthId
    name: str
    alive: bool
    role: str
    view: ViewId
    membership: tuple[Member, ...]
    program: Any
    statistics: dict[str, Any]
    log: tuple[int, int] | None = None
    """Length and digest of the birth log, if it keeps one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    records: list[Record]
    """Of all processes, in the order of time."""
    processes: list[ProcessState]
    """All that ever were."""
    faults: tuple[PerformedFault, ...]
    profile: Profile
    options: SimulationOptions
    topology: Topology
    simulated_ns: int
    quiesced: bool
    """The clients were finished and all groups settled within the bound."""
    former: tuple[ProcessState, ...] = ()
    """Processes of earlier generations: the power went since (`generations`)."""
    journals_end_ns: Mapping[GroupId, int] = field(default_factory=dict)
    """Of real processes: the time of each group's last record. One that was killed may have written more."""
