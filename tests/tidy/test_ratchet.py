"""Modules fit a reading, functions fit a screen."""

from __future__ import annotations

from tests.tidy.ratchet import LIMITS, grown, load, measure


def test_nothing_is_larger_than_it_may_be() -> None:
    limits, allowed = load()
    assert grown(allowed, measure(limits), limits) == []


def test_the_limits_were_not_raised() -> None:
    limits, _ = load()
    assert all(limits[name] <= LIMITS[name] for name in LIMITS)


def test_what_shrank_was_noted() -> None:
    """Else it could grow back to what it was."""
    limits, allowed = load()
    found = measure(limits)
    shrunk = [name for name, size in allowed.items() if found.get(name, 0) < size]
    assert shrunk == [], "run python -m tests.tidy.ratchet --update"


def test_growth_is_seen() -> None:
    limits = {"module_lines": 10, "function_lines": 5}
    assert grown({"a.py": 12}, {"a.py": 12}, limits) == []
    assert len(grown({"a.py": 12}, {"a.py": 13}, limits)) == 1
    assert len(grown({}, {"a.py:f": 6}, limits)) == 1
