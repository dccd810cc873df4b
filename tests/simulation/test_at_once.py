"""A call that is completed at once leaves the replica as a step would: the same worlds, but for nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from llft.core import effects, events
from llft.core.determinizer.ordered_runs import CLAIM_CODE, RELEASE_CODE
from llft.core.determinizer.outside import BLOCKED
from llft.core.replica import Replica
from llft.simulator import process, reading_on
from llft.simulator.interfaces import Core
from llft.simulator.options import SimulationOptions
from llft.simulator.runner import SeedResult, run_seed
from llft.simulator.stepping import _without_run, stepped

pytestmark = pytest.mark.reference

CLOCK_READ = " ## ClockRead"


def only_steps(core: Core, event: events.Event, now_ns: int) -> list[effects.Effect]:
    return core.step(event, now_ns)


def told(result: SeedResult) -> tuple[object, ...]:
    return result.trace_hash, result.operations, result.simulated_ns, result.violations


@pytest.mark.parametrize("profile", ["default", "crash", "loss"])
@pytest.mark.parametrize("seed", range(3))
def test_worlds_are_the_same_without_it(monkeypatch: pytest.MonkeyPatch, profile: str, seed: int) -> None:
    counts = {"at once": 0, "calls": 0}

    def counted(core: Core, event: events.Event, now_ns: int) -> list[effects.Effect]:
        todo = stepped(core, event, now_ns)
        if type(event) is events.OperationInvoked:
            counts["calls"] += 1
            counts["at once"] += bool(todo) and type(todo[0]) is effects.ResumeThread
        return todo

    options = SimulationOptions(profile=profile)
    monkeypatch.setattr(process, "stepped", counted)
    found = run_seed(seed, options)
    assert counts["at once"] > 50
    monkeypatch.setattr(process, "stepped", only_steps)
    assert told(run_seed(seed, options)) == told(found)
    assert not found.violations


def without_runs(core: Core, event: events.Event, now_ns: int) -> list[effects.Effect]:
    return _without_run(core, event, now_ns, None)


@pytest.mark.parametrize(("profile", "seed"), [("default", 1), ("crash", 0), ("loss", 0)])
def test_worlds_are_the_same_without_runs(monkeypatch: pytest.MonkeyPatch, profile: str, seed: int) -> None:
    """Calls that a core is told of later, all at once (D-72), by every other process of a world."""
    made: list[int] = []
    take_back = reading_on.take_back

    def counted(core: Replica, now_ns: int) -> list[effects.Effect]:
        made.append(len(core.run.plain.codes))
        return take_back(core, now_ns)

    options = SimulationOptions(profile=profile)
    monkeypatch.setattr(reading_on, "take_back", counted)
    found = run_seed(seed, options)
    assert sum(made) > 20
    monkeypatch.setattr(process, "stepped", without_runs)
    assert told(run_seed(seed, options)) == told(found)
    assert not found.violations


def told_apart(result: SeedResult) -> tuple[object, ...]:
    """All that happened, and then the clock readings: the journal has a call of a run when it is told of it,
    and in ordered mode threads make their calls one at a time, and not all of a run in one moment."""
    reads = sorted(line.split(" ", 1)[1] for line in result.trace if CLOCK_READ in line)
    rest = [line for line in result.trace if CLOCK_READ not in line]
    return rest, reads, result.operations, result.simulated_ns, result.violations


@pytest.mark.parametrize(
    ("profile", "seed"), [("default", 4), ("crash", 0), ("crash", 2), ("loss", 0), ("partition", 0)]
)
def test_ordered_worlds_are_the_same_without_runs(
    monkeypatch: pytest.MonkeyPatch, profile: str, seed: int
) -> None:
    """With claims and releases in them, at primaries and at backups."""
    made: Counter[tuple[int, bool]] = Counter()
    take_back = reading_on.take_back

    def counted(core: Replica, now_ns: int) -> list[effects.Effect]:
        run = core.run.plain
        for code, size in zip(run.codes, run.sizes, strict=True):
            other = CLAIM_CODE + RELEASE_CODE - code
            made.update((other if call % 2 else code, core.live) for call in range(size))
        return take_back(core, now_ns)

    options = SimulationOptions(profile=profile, threads="ordered", trace=True)
    monkeypatch.setattr(reading_on, "take_back", counted)
    found = run_seed(seed, options)
    assert all(made[code, live] for code in (CLAIM_CODE, RELEASE_CODE) for live in (True, False)), made
    monkeypatch.setattr(process, "stepped", without_runs)
    assert told_apart(run_seed(seed, options)) == told_apart(found)
    assert not found.violations


def test_what_does_not_agree_with_the_log_resets_the_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup that finds out in a call that is tried at once: it begins anew, and the group goes on."""
    resets: list[str] = []

    def spoilt(core: Core, event: events.Event, now_ns: int) -> list[effects.Effect]:
        if type(event) is events.OperationInvoked and core.role == "backup" and not resets:
            send = event.operation
            if type(send).__name__ == "Send" and len(send.payload) > 8:
                changed = events.OperationInvoked(event.thread, send._replace(payload=b"?" * 9))
                assert core.at_once(changed.thread, changed.operation, now_ns) is BLOCKED
                todo = core.drain()
                resets.extend(type(effect).__name__ for effect in todo)
                return todo or core.step(event, now_ns)
        return stepped(core, event, now_ns)

    monkeypatch.setattr(process, "stepped", spoilt)
    result = run_seed(6, SimulationOptions(profile="default"))
    assert "ResetApplication" in resets
    assert {one.property for one in result.violations} == {"digests"}, "told, and nothing else came of it"
