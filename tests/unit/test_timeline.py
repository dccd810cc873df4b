"""What a replica's log and status say of a change, put into words after it."""

from __future__ import annotations

from llft import originals
from llft.config import ThreadMode
from llft.core import events
from llft.identifiers import BirthId, Member, ViewId
from llft.instant import MS
from llft.journal.record import Latency, MembershipChanged, Record, RoleChanged, Stamp, Suspected
from llft.runtime.driver import UNFLUSHED_AT_MOST_NS, Driver
from llft.runtime.timeline import Timeline
from tests.unit.test_driver import Silence, make_driver

OLD, OWN = BirthId(1, 2, 3), BirthId(1, 4, 5)
VIEW = ViewId(2, 2, OWN)


def stamp(time_ns: int) -> Stamp:
    return Stamp(time_ns, 7, OWN, VIEW)


def change() -> Timeline:
    timeline = Timeline()
    for record in (
        Suspected(stamp(1 * MS), OLD, "stopped"),
        RoleChanged(stamp(1 * MS), "proposing", "stopped"),
        MembershipChanged(stamp(1 * MS), 3, (Member(OWN, 2),)),
        RoleChanged(stamp(3 * MS), "recovering", "all acknowledged"),
        RoleChanged(stamp(7 * MS), "primary", "virtual synchrony point reached"),
        Latency(stamp(7 * MS), "recovery", 4 * MS),
    ):
        timeline.noted.append(record)
    return timeline


def test_what_was_noted_is_told_once_and_of_its_own_time() -> None:
    timeline = change()
    told = timeline.tell(0, 0)
    assert timeline.last_reason == "virtual synchrony point reached"
    assert [time_ns // MS for time_ns, _ in told] == [1, 1, 1, 3, 7]
    assert [line.split(":")[0] for _, line in told] == [
        f"suspects {OLD}",
        f"is proposing in {VIEW}",
        "membership 3",
        f"is recovering in {VIEW}",
        f"is primary in {VIEW}",
    ]
    assert timeline.tell(0, 0) == []


def test_a_view_is_performed_when_the_new_primary_acts() -> None:
    timeline = change()
    timeline.tell(8 * MS, 9 * MS)
    (view,) = timeline.views
    assert timeline.suspicions == {"timeout": 0, "certificate": 0, "stopped": 1}
    assert (view["suspected_at_ns"], view["at_ns"]) == (1 * MS, 7 * MS)
    assert (view["acts_ns"], view["performed_ns"]) == (8 * MS, 9 * MS)
    assert view["stages_ms"] == {"view_change": 2.0, "synchrony": 4.0}


def test_a_primary_acts_when_everything_is_done_that_the_step_wanted_but_to_note_it() -> None:
    """That is noted at once, and written some milliseconds later: clients come first."""
    driver, done_ns = make_driver(ThreadMode.TOKEN), []

    class World(Silence):
        def write(self, record: Record) -> None:
            done_ns.append(originals.monotonic_ns())

    driver.world = World()
    driver = Driver(driver.core, driver.network, driver.world, driver.poller)
    driver.happen(events.Started(alone=True))
    acts_since_ns = driver.acts_since_ns
    assert 0 < acts_since_ns < driver.noted_ns
    assert done_ns[-1] < driver.noted_ns
    assert driver.written
    driver.happen(events.DeadlinePassed())
    assert driver.acts_since_ns == acts_since_ns, "once in a life"
    flushed: list[None] = []
    driver.world.flush = lambda: flushed.append(None)  # type: ignore[method-assign]
    if originals.monotonic_ns() < driver.noted_ns + UNFLUSHED_AT_MOST_NS // 2:
        driver.flush()
        assert not flushed
    while originals.monotonic_ns() < driver.noted_ns + UNFLUSHED_AT_MOST_NS:
        pass
    driver.flush()
    assert flushed == [None]
