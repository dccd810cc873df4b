"""All members make way for one that joins: neither a checkpoint nor a trial of theirs begins meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llft import originals
from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId, Member
from llft.journal.record import MembershipChanged, RoleChanged, Stamp
from llft.runtime.settings import Settings
from llft.runtime.state.checkpoints import HELD_NS, Checkpoints

STAMP = Stamp(0, 1, NO_BIRTH, NO_VIEW)
NOW_NS = 1000


class Held:
    """In the place of a keeper, and of a trial."""

    def __init__(self) -> None:
        self.until_ns: list[int] = []
        self.make_way = self.hold = self.until_ns.append


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoints:
    monkeypatch.setattr(originals, "monotonic_ns", lambda: NOW_NS)
    life: Any = SimpleNamespace(specification={"group": "g"}, path=str(tmp_path / "replica-1"), driver=None)
    return Checkpoints(life, Settings())


def membership(*pids: int) -> MembershipChanged:
    return MembershipChanged(STAMP, 0, tuple(Member(BirthId(1, pid, 1), pid) for pid in pids))


def test_a_new_member_holds_keeper_and_trial(checkpoints: Checkpoints) -> None:
    keeper, trial = Held(), Held()
    checkpoints.take(membership(1, 2))
    checkpoints.keeper, checkpoints._scratch = keeper, trial  # type: ignore[assignment]
    checkpoints.take(membership(1, 2, 3))
    assert keeper.until_ns == trial.until_ns == [NOW_NS + HELD_NS]


def test_who_leaves_or_changes_its_role_holds_nobody(checkpoints: Checkpoints) -> None:
    keeper = Held()
    checkpoints.take(membership(1, 2, 3))
    checkpoints.keeper = keeper  # type: ignore[assignment]
    checkpoints.take(membership(2, 3))
    checkpoints.take(membership(2, 3))
    checkpoints.take(RoleChanged(STAMP, "backup", ""))
    assert keeper.until_ns == []
    checkpoints.take(membership(2, 3, 4))
    assert keeper.until_ns == [NOW_NS + HELD_NS]
