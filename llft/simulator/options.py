"""What the caller of a simulation may choose; None means: drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    profile: str = "default"
    topology: str | None = None
    replicas: int | None = None
    """Of every group that the topology replicates; 1 to 5."""
    replication: str | None = None
    """A value of `llft.config.Replication`."""
    threads: str | None = None
    """A value of `llft.config.ThreadMode`."""
    plant: str | None = None
    """A bug to plant, by its name in `llft.simulator.plants`."""
    trace: bool = False
    journal_dir: str | None = None
