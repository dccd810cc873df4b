"""A program's past in the world: the profiles reach what they are for, and disks have what was written."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from llft.core.determinizer.operations import Yield
from llft.past.birth_log import OPERATION_KINDS, BirthLog
from llft.past.history import VERSION, Heading
from llft.simulator.options import SimulationOptions
from llft.simulator.runner import Simulation
from llft.simulator.state.disk import Disk, HistoryWriter
from llft.simulator.state.fetching import Fetching
from llft.simulator.state.keeping import Keeping

SEEDS = 12


def counted(monkeypatch: pytest.MonkeyPatch, profile: str) -> Counter[str]:
    """What happened to programs' pasts in some seeds."""
    counts: Counter[str] = Counter()
    begin, go_on = Fetching.begin, Keeping.go_on

    def beginning(self: Fetching) -> None:
        counts["state" if self.wanted.base is not None else "no state"] += 1
        counts["log with it" if self.wanted.log is not None else "log fetched"] += 1
        begin(self)

    def going_on(self: Keeping, past: Any, state: bytes) -> None:
        counts["from a state" if past.base is not None else "from birth"] += 1
        counts[f"view {past.view}"] += 1
        go_on(self, past, state)

    monkeypatch.setattr(Fetching, "begin", beginning)
    monkeypatch.setattr(Keeping, "go_on", going_on)
    for seed in range(SEEDS):
        simulation = Simulation(seed, SimulationOptions(profile=profile))
        simulation.run()
        counts.update(fault.kind for fault in simulation.injector.performed)
        for process in simulation.cluster.processes:
            if isinstance(process.past, Keeping):
                keeper = process.past.checkpoints.keeper
                counts["verified"] += keeper.verified_count
                counts["refused"] += keeper.failed_count
                counts["dropped"] += keeper.dropped_bytes
    return counts


def test_replicas_join_by_states_and_logs_while_their_servers_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted(monkeypatch, "join-storm")
    wanted = ("state", "no state", "log with it", "log fetched", "verified", "refused", "dropped")
    assert [what for what in (*wanted, "CrashSource", "Join") if not counts[what]] == []


def test_groups_go_on_from_disk_after_changes_of_their_primaries(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted(monkeypatch, "restart")
    assert [what for what in ("PowerLoss", "from a state", "view 1", "view 2") if not counts[what]] == []


def test_a_disk_has_what_was_flushed_and_nothing_of_what_was_torn() -> None:
    for seed in range(100):
        log, disk = BirthLog(), Disk("replica-1")
        assert disk.past() is None
        writer = HistoryWriter(disk)
        log.completed(1, OPERATION_KINDS[Yield], seed)
        writer.begin(Heading(VERSION, {}, None, 0, 0, 0, []), None, b"", log, 1)
        log.completed(1, OPERATION_KINDS[Yield], None)
        writer.flush(log, 2)
        disk.tear(random.Random(seed))
        past = disk.past()
        assert past is not None
        assert (past.log, past.view) == (log.kept(), 2)
