"""Where the gateway listens: as the primary's program does, once that is where the group is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from llft.runtime.supervisor.supervisor import Supervisor

SAID = [("127.0.0.1", 80)]


def wanted(*slots: Any) -> list[tuple[str, int]]:
    listening = SimpleNamespace(addresses=lambda: SAID)
    supervisor: Any = SimpleNamespace(replicas=dict(enumerate(slots)), _listening=listening)
    return Supervisor._listening_wanted(supervisor)


def slot(role: str, *addresses: tuple[str, int], has_state: bool = True) -> SimpleNamespace:
    status = {"listening": [list(address) for address in addresses], "has_state": has_state}
    return SimpleNamespace(is_member=True, role=role, status=status)


def test_as_the_primary_says() -> None:
    assert wanted(slot("backup", ("::", 1)), slot("primary", ("127.0.0.1", 8080))) == [("127.0.0.1", 8080)]
    assert wanted(slot("primary")) == [], "its program has closed its listener"


def test_a_program_in_its_past_says_nothing_yet() -> None:
    """A semi-passive backup begins its program when it takes over: clients must not be refused meanwhile."""
    assert wanted(slot("primary", has_state=False)) == SAID
    assert wanted(slot("primary", has_state=False), slot("backup")) == SAID


def test_without_a_primary_here() -> None:
    assert wanted(slot("backup", ("127.0.0.1", 8080))) == [("127.0.0.1", 8080)]
    assert wanted() == SAID
