"""A state that another replica of the same run has is linked, if it is the one that was meant."""

from __future__ import annotations

from pathlib import Path

from llft.past.checkpoint import Base
from llft.runtime.state.files import digest_of, linked

STATE = b"state" * 1000


def base_of(path: Path) -> Base:
    content, size = digest_of(str(path))
    return Base("image", 77, 0, size, content, 0, 0)


def test_the_state_of_another_replica_is_linked(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "replica-1.state-77", tmp_path / "replica-2.state-77"
    theirs.write_bytes(STATE)
    assert linked(str(mine), base_of(theirs))
    theirs.unlink()
    assert mine.read_bytes() == STATE


def test_another_state_of_the_same_name_is_not(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "replica-1.state-77", tmp_path / "replica-2.state-77"
    theirs.write_bytes(STATE)
    wanted = base_of(theirs)
    theirs.write_bytes(STATE[:-1] + b"!")
    assert not linked(str(mine), wanted)
    assert not mine.exists()


def test_what_was_fetched_in_part_stays(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "replica-1.state-77", tmp_path / "replica-2.state-77"
    theirs.write_bytes(STATE)
    mine.write_bytes(STATE[:100])
    assert not linked(str(mine), base_of(theirs))
    assert mine.read_bytes() == STATE[:100]


def test_nobody_has_it(tmp_path: Path) -> None:
    (tmp_path / "replica-1.state-78").write_bytes(STATE)
    assert not linked(str(tmp_path / "replica-2.state-77"), base_of(tmp_path / "replica-1.state-78"))
