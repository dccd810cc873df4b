"""The key that a home has when nobody named one."""

from __future__ import annotations

import stat
from pathlib import Path

from llft.runtime.supervisor.home_key import home_key
from llft.runtime.transport.keys import load_keys


def test_is_made_once_and_kept_to_its_owner(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = home_key(home)
    content = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert home_key(home) == path
    assert path.read_text() == content
    assert [each.name for each in home.iterdir()] == ["key"]
    assert load_keys(str(path)).numbers() == (1,)


def test_two_homes_have_two_keys(tmp_path: Path) -> None:
    assert home_key(tmp_path / "a").read_text() != home_key(tmp_path / "b").read_text()
