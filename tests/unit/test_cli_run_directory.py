"""Who holds a run directory, and what a new holder finds there; when a dead process is replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llft.errors import MisuseError
from llft.runtime.supervisor.run_directory import RunDirectory, llft_home, running_groups, the_group
from llft.runtime.supervisor.slot import BackOff


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("h")
    monkeypatch.setenv("LLFT_HOME", str(path))
    return path


def test_one_holder_at_a_time() -> None:
    first, second = RunDirectory.of_group("bank"), RunDirectory.of_group("bank")
    first.claim()
    assert second.holder() == os.getpid()
    with pytest.raises(MisuseError, match="group-already-runs"):
        second.claim()
    first.release()
    assert second.holder() is None
    second.claim()
    second.release()


def test_what_a_dead_holder_left_is_cleaned_and_its_journals_are_kept() -> None:
    directory = RunDirectory.of_group("bank")
    directory.path.mkdir(parents=True)
    directory.pid_file.write_text("1\n")
    stale = (
        "replica-1.sock",
        "supervisor.sock",
        "gateway.id",
        "replica-1.state-77",
        "replica-1.scratch.task",
    )
    for name in (*stale, "replica-1.log"):
        (directory.path / name).write_text("old")
    directory.journal.mkdir()
    (directory.journal / "replica-1-7.llj").write_text("old")
    assert directory.holder() is None
    directory.claim()
    assert sorted(path.name for path in directory.path.iterdir()) == ["journal", "previous", "supervisor.pid"]
    assert (directory.path / "previous" / "journal" / "replica-1-7.llj").exists()
    assert list(directory.journal.iterdir()) == []
    directory.release()
    assert not directory.pid_file.exists()


def test_an_image_of_a_killed_replica_does_not_outlast_the_run() -> None:
    """It has all that the program had in its memory. A history's has a name of its own."""
    directory = RunDirectory.of_group("bank")
    directory.claim()
    state, kept = directory.path / "replica-1.state-77", directory.durable / "replica-1" / "state-77"
    kept.parent.mkdir(parents=True)
    state.write_text("memory")
    kept.hardlink_to(state)
    directory.release()
    assert not state.exists()
    assert kept.read_text() == "memory"


def test_a_refused_claim_leaves_the_holders_things_alone() -> None:
    first = RunDirectory.of_group("bank")
    first.claim()
    first.supervisor_socket.write_text("")
    with pytest.raises(MisuseError):
        RunDirectory.of_group("bank").claim()
    assert first.supervisor_socket.exists()
    first.release()


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "x" * 65, "a b"])
def test_group_names_are_file_names(name: str) -> None:
    with pytest.raises(MisuseError, match="bad-group-name"):
        RunDirectory.of_group(name)


def test_a_path_too_long_for_a_socket_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLFT_HOME", str(home / ("x" * 100)))
    with pytest.raises(MisuseError, match="run-directory-path-too-long"):
        RunDirectory.of_group("bank").claim()


def test_the_group_that_is_meant() -> None:
    with pytest.raises(MisuseError, match="no-group-runs"):
        the_group(None)
    bank, shop = RunDirectory.of_group("bank"), RunDirectory.of_group("shop")
    bank.claim()
    assert the_group(None).group == "bank"
    with pytest.raises(MisuseError, match="group-does-not-run"):
        the_group("shop")
    shop.claim()
    assert [found.group for found in running_groups()] == ["bank", "shop"]
    with pytest.raises(MisuseError, match="several-groups-run"):
        the_group(None)
    bank.release()
    shop.release()


def test_where_home_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLFT_HOME")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert llft_home() == Path("/run/user/7/llft")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert llft_home() == Path(f"/tmp/llft-{os.getuid()}")


def test_the_back_off_doubles_up_to_a_bound_and_forgets_after_a_longer_life() -> None:
    back_off = BackOff()
    assert [back_off.pause_after(0.5) for _ in range(9)] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]
    assert back_off.hopeless
    assert back_off.pause_after(2.5) == 0.25
    assert not back_off.hopeless
