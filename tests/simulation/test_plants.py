"""Every planted bug is found by the checkers, quickly, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from llft.core.messaging.connection import Connection
from llft.errors import MisuseError
from llft.simulator.plants import PLANTS, Patch, Plant, applied, planted
from llft.simulator.plants.plant import does_nothing
from llft.simulator.profiles import PROFILES
from llft.simulator.runner import SimulationOptions, run_seed

NEARBY_SEEDS = 12
"""A changed core draws other worlds from the same seeds. If a plant's own seed does not show it any more,
one of so many others must; then note that one with the plant."""


def broken(seed: int, profile: str, plant: str | None = None) -> set[str]:
    """The properties that do not hold."""
    result = run_seed(seed, SimulationOptions(profile=profile, plant=plant))
    return {violation.property for violation in result.violations}


@pytest.mark.parametrize("name", PLANTS)
def test_the_checkers_find_it(name: str) -> None:
    plant = PLANTS[name]
    for seed in (plant.seed, *(seed for seed in range(NEARBY_SEEDS) if seed != plant.seed)):
        found = broken(seed, plant.profile, name)
        if found and found - broken(seed, plant.profile):
            return
    pytest.fail(f"no seed shows {name}: {plant.description}")


def test_there_are_enough_of_them_and_they_say_what_they_break() -> None:
    assert len(PLANTS) >= 18
    for name, plant in PLANTS.items():
        assert plant.name == name
        assert plant.description
        assert plant.patches
        assert plant.profile in PROFILES


def surroundings() -> list[Any]:
    """Everything that any plant replaces, as it is now."""
    patches = [patch for plant in PLANTS.values() for patch in plant.patches]
    return [vars(patch.owner)[patch.attribute] for patch in patches]


def test_everything_is_put_back() -> None:
    before = surroundings()
    first = run_seed(3, SimulationOptions(profile="crash"))
    for name, plant in PLANTS.items():
        with planted(name):
            for owner, attribute, _ in plant.patches:
                assert vars(owner)[attribute] not in before
        assert surroundings() == before
    assert run_seed(3, SimulationOptions(profile="crash")) == first


def test_it_is_put_back_when_the_run_fails() -> None:
    before = surroundings()
    with pytest.raises(ZeroDivisionError), planted(next(iter(PLANTS))):
        raise ZeroDivisionError
    assert surroundings() == before


def test_no_plant_is_no_bug() -> None:
    before = surroundings()
    with planted(None):
        assert surroundings() == before


def test_an_unknown_plant_is_refused() -> None:
    with pytest.raises(MisuseError), planted("tulip"):
        pass


def test_a_plant_that_does_not_fit_is_refused_and_what_it_did_is_undone() -> None:
    original = vars(Connection)["accept"]
    fitting = Patch(Connection, "accept", does_nothing)
    gone = Patch(Connection, "gone", does_nothing)
    changed = Patch(Connection, "collect_sent", lambda original: lambda self: None)
    for unfit in (gone, changed):
        with pytest.raises(MisuseError), applied(Plant("old", "", (fitting, unfit))):
            pass
    assert vars(Connection)["accept"] is original
