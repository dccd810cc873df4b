"""What a live run leaves is judged like a simulation: the same checkers, on the journals."""

from __future__ import annotations

from pathlib import Path

from llft.cli.journal_check import find_losses, journal_paths
from llft.simulator.checkers.losses import LostOperation
from llft.simulator.from_journals import Journal, judge, read_journals


def journals_of(*directories: Path) -> list[Journal]:
    return read_journals(journal_paths(list(directories)))


def assert_journals_hold(*directories: Path) -> list[Journal]:
    """All properties that journals can show; for one group, give the directories of all its hosts."""
    journals = journals_of(*directories)
    violations = judge(journals)
    assert not violations, "\n".join(f"{one.property}: {one.explanation}" for one in violations)
    return journals


def lost_operations(journals: list[Journal]) -> list[LostOperation]:
    """Those of pruned branches, and those of which nobody heard."""
    return [one for lost in find_losses(journals)[0].values() for one in lost]
