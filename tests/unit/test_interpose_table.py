"""The table of patches is complete: every function of the C modules is classified, and what is to be
replaced has a replacement (D-17)."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from llft.interpose import table
from llft.interpose.install import replacements


def imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"this Python has no {name}")


@pytest.mark.parametrize("name", table.ROWS)
def test_every_function_is_classified(name: str) -> None:
    assert table.unclassified(name, vars(imported(name))) == []


@pytest.mark.parametrize("name", table.ROWS)
def test_what_is_not_passed_has_a_replacement(name: str) -> None:
    module = imported(name)
    elsewhere = {("_datetime", "datetime"), ("_queue", "SimpleQueue")}
    wanted = {
        attribute
        for attribute, known in table.classes(name).items()
        if known.treatment in ("ordered", "virtual") and hasattr(module, attribute)
        if (name, attribute) not in elsewhere
    }
    assert wanted - set(replacements().get(name, {})) == set()


@pytest.mark.parametrize("name", table.ROWS)
def test_what_is_replaced_is_said_to_be(name: str) -> None:
    known = table.classes(name)
    assert [
        attribute for attribute in replacements().get(name, {}) if known[attribute].treatment == "passed"
    ] == []


@pytest.mark.parametrize("name", table.ROWS)
def test_no_name_has_two_classes(name: str) -> None:
    names = [word for _, _, words in table.ROWS[name] for word in words.split()]
    assert sorted(names) == sorted(set(names))


def test_a_new_function_is_noticed() -> None:
    assert table.unclassified("select", {"kqueue": len, "KQ_EV_ADD": 1, "error": OSError}) == ["kqueue"]


def test_every_class_has_a_reason() -> None:
    assert all(reason for rows in table.ROWS.values() for _, reason, _ in rows)
