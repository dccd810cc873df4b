"""D-63: where states may be images without anybody having asked for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llft.config import Checkpoints, ThreadMode
from llft.runtime.native import image
from llft.runtime.settings import Settings
from llft.runtime.state.choice import CONFIGURED, SIDE_BY_SIDE, against_images

HERE = Settings()
ELSEWHERE = replace(HERE, transport=replace(HERE.transport, interface="192.0.2.7"))


@pytest.fixture(autouse=True)
def possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "impossible", lambda: "")


def against(settings: Settings = HERE, *, durable: bool = False, **values: object) -> str:
    return against_images(settings.with_group("shop", **values), "shop", durable=durable)


def test_on_one_host_nothing_speaks_against_them() -> None:
    assert against() == ""
    assert against(checkpoints=Checkpoints.IMAGE) == ""


def test_where_hosts_may_differ_or_change_they_are_asked_for() -> None:
    assert "--checkpoints image" in against(ELSEWHERE)
    assert "--checkpoints image" in against(durable=True)
    assert against(ELSEWHERE, checkpoints=Checkpoints.IMAGE) == ""
    assert against(durable=True, checkpoints=Checkpoints.IMAGE) == ""


@pytest.mark.parametrize("choice", [Checkpoints.HOOKS, Checkpoints.NONE])
def test_who_wants_something_else_has_none(choice: Checkpoints) -> None:
    assert against(checkpoints=choice) == CONFIGURED


@pytest.mark.parametrize("choice", [Checkpoints.AUTO, Checkpoints.IMAGE])
def test_threads_side_by_side_have_none_even_if_asked(choice: Checkpoints) -> None:
    assert against(checkpoints=choice, threads=ThreadMode.ORDERED) == SIDE_BY_SIDE


def test_a_data_directory_is_in_no_image() -> None:
    assert "data directory" in against(data="/srv/shop")


def test_where_no_process_can_have_one_that_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "impossible", lambda: "what takes images is not compiled")
    assert against() == "what takes images is not compiled"
    assert against(checkpoints=Checkpoints.NONE) == CONFIGURED
