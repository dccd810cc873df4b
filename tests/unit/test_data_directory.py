"""The data directory at its supervisor: what begins with the seed, and what is never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from llft.config import Checkpoints
from llft.errors import MisuseError
from llft.runtime.settings import GroupSettings
from llft.runtime.state.tree import put_back
from llft.runtime.supervisor.data import SEED, data_of, prepare, set_aside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_the_seed_is_the_directory_when_the_group_was_founded(tmp_path: Path, root: Path) -> None:
    directory, copy = tmp_path / "shop", tmp_path / "copy"
    directory.mkdir()
    copy.mkdir()
    (directory / "file").write_bytes(b"before")
    prepare(root, str(directory), goes_on=False)
    (directory / "file").write_bytes(b"after")
    put_back(str(copy), Path(data_of(root, str(directory), "replica-1").seed).read_bytes())
    assert (copy / "file").read_bytes() == b"before"


def test_a_directory_that_is_not_there_is_made(tmp_path: Path, root: Path) -> None:
    prepare(root, str(tmp_path / "new" / "shop"), goes_on=False)
    assert (tmp_path / "new" / "shop").is_dir()
    assert (root / SEED).read_bytes() == b""


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_what_is_no_directory_is_refused(tmp_path: Path, root: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(MisuseError, match=r"data-is-no-directory.*give a directory"):
        prepare(root, str(tmp_path / name), goes_on=False)
    assert (tmp_path / "file").read_bytes() == b"x"


@pytest.mark.parametrize("data", ["/", "{tmp}", "{tmp}/run"])
def test_a_directory_that_has_the_run_in_it_is_refused(tmp_path: Path, root: Path, data: str) -> None:
    """Its copy would contain the copies."""
    root.mkdir()
    with pytest.raises(MisuseError, match="data-contains-the-run"):
        prepare(root, data.format(tmp=tmp_path), goes_on=False)


def test_what_an_earlier_run_left_is_not_overwritten(tmp_path: Path, root: Path) -> None:
    (root / "replica-2").mkdir(parents=True)
    with pytest.raises(MisuseError, match="data-of-an-earlier-run"):
        prepare(root, str(tmp_path), goes_on=False)


def test_a_group_that_goes_on_from_disk_begins_with_its_own_seed(tmp_path: Path, root: Path) -> None:
    (root / "replica-2").mkdir(parents=True)
    (root / SEED).write_bytes(b"the seed of its histories")
    prepare(root, str(tmp_path), goes_on=True)
    assert (root / SEED).read_bytes() == b"the seed of its histories"


def test_what_a_lost_group_had_written_is_set_aside(root: Path) -> None:
    (root / "replica-1").mkdir(parents=True)
    (root / "replica-1" / "file").write_bytes(b"written")
    set_aside(root)
    assert not (root / "replica-1").exists()
    assert [path.read_bytes() for path in root.glob("lost-*/replica-1/file")] == [b"written"]


def test_images_do_not_carry_it() -> None:
    assert "image" in GroupSettings("shop", data="/srv/shop", checkpoints=Checkpoints.IMAGE).obstacle
    assert GroupSettings("shop", data="/srv/shop").obstacle == ""
