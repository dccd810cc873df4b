"""What a backup has ready for the day it takes over: the same as what would be made then."""

from __future__ import annotations

import pytest

from llft.config import GroupConfig, ThreadMode
from llft.core import effects, events
from llft.core.beforehand import Beforehand
from llft.core.determinizer.determinizer import Determinizer
from llft.core.determinizer.operations import Accept, Sleep
from llft.core.messaging.lane import Lane
from llft.core.outbox import Outbox
from llft.core.record_kinds import ROLE_CHANGED
from llft.core.standing import BACKUP, PROPOSING, Standing
from llft.identifiers import NO_VIEW, BirthId, Member, ViewId
from llft.journal.record import Operated, RoleChanged, Stamp
from llft.wire.fragment import Reassembly
from llft.wire.order import (
    PRIMARY_VIEW,
    TIME,
    WAKE,
    Entry,
    OrderContext,
    OrderDecoder,
    OrderEncoder,
    describe,
)
from tests.paper.playbook import Playbook
from tests.unit.determinizer_world import FakeConnections

OLD, OWN = BirthId(1, 10, 77), BirthId(1, 300_000, 2**63)


def backup(*, precedence: int = 2) -> Standing:
    standing = Standing(GroupConfig(group_id=5), OWN)
    standing.role, standing.view = BACKUP, ViewId(1, 7, OLD)
    standing.membership = (Member(OLD, 1), Member(OWN, precedence))
    return standing


def lane_of(standing: Standing) -> Lane:
    """At the virtual synchrony point: something was ordered before."""
    lane = Lane(standing, Reassembly(1 << 20, 4))
    context = OrderContext()
    before = OrderEncoder(context)
    before.append((TIME, 3, 1, 0, 999))
    lane.orders.append(before.take())
    lane.encoder = OrderEncoder(context, lane.orders.end, 1)
    return lane


def test_the_entry_that_is_ready_is_what_the_encoder_would_write_and_the_journal_be_told() -> None:
    standing = backup()
    ready, quick, slow = Beforehand(standing), lane_of(standing), lane_of(standing)
    standing.view = ready.own_view()
    outbox = Outbox(standing, journalling=True)
    assert ready.record(quick, outbox)
    entry: Entry = (PRIMARY_VIEW, standing.view, ())
    slow.record(entry)
    slow.flush()
    assert quick.orders.data == slow.orders.data
    assert quick.encoder is not None
    assert slow.encoder is not None
    assert (quick.encoder.offset, quick.encoder.count) == (slow.encoder.offset, slow.encoder.count)
    assert (quick.encoder.offset, quick.encoder.count) == (quick.orders.end, 2)
    assert quick.encoder.context == slow.encoder.context
    (written,) = outbox.drain()
    assert isinstance(written, effects.WriteRecord)
    assert written.record == Operated(Stamp(0, 5, OWN, standing.view), 2, describe(entry))


def test_what_follows_is_coded_as_ever() -> None:
    standing = backup()
    ready, lane = Beforehand(standing), lane_of(standing)
    standing.view = ready.own_view()
    assert ready.record(lane, Outbox(standing, journalling=False))
    lane.record((TIME, 3, 1, 0, 1_000))
    lane.flush()
    decoder = OrderDecoder(OrderContext())
    decoder.feed(bytes(lane.orders.data))
    entries = [decoder.next() for _ in range(3)]
    assert entries == [(TIME, 3, 1, 0, 999), (PRIMARY_VIEW, standing.view, ()), (TIME, 3, 1, 0, 1_000)]


def test_what_is_ready_follows_where_the_backup_stands() -> None:
    standing = backup()
    ready = Beforehand(standing)
    first = ready.own_view()
    assert first == ViewId(2, 8, OWN)
    assert ready.own_view() is first
    standing.view = ViewId(1, 8, OLD)  # another primary came and went
    assert ready.own_view() == ViewId(2, 9, OWN)
    standing.membership = (Member(OLD, 1), Member(OWN, 4))  # it was removed, and has joined again
    assert ready.own_view() == ViewId(4, 9, OWN)
    assert ready.told[1] == (PRIMARY_VIEW, 9, 4, *OWN)


def test_what_is_of_another_view_is_not_recorded() -> None:
    """Nor where something is before it that has to be written first."""
    standing = backup()
    ready, lane = Beforehand(standing), lane_of(standing)
    outbox = Outbox(standing, journalling=True)
    ready.own_view()
    assert not ready.record(lane, outbox)
    standing.view = ready.own_view()
    lane.record((TIME, 3, 1, 0, 1_000))
    assert not ready.record(lane, outbox)
    assert outbox.drain() == []


def test_a_backup_has_it_ready_when_its_primary_dies() -> None:
    with Playbook() as play:
        play.join("s1", alone=True)
        play.join("s2")
        play.run(200)
        ready = play["s2"].primary_change.beforehand
        assert ready.view.birth_id == play["s2"].standing.birth_id
        dead, made = play["s1"].standing.birth_id, ready.view
        play.crash("s1")
        play.drop()
        play.step("s2", events.PeerDied(dead))
        assert play["s2"].role == "primary"
        assert play["s2"].view is made
        (told,) = [one for one in play.recorded(Operated, "s2") if one.stamp.view == made][:1]
        assert told.entry == describe((PRIMARY_VIEW, made, ()))
        play.run(100)
        play.join("s3")
        play.run(200)
        assert play["s3"].view == made
        assert play["s3"].lineage == play["s2"].lineage
        play.records.clear()


def test_a_record_is_what_it_was_when_it_was_recorded() -> None:
    standing = backup()
    outbox = Outbox(standing, journalling=True)
    outbox.now_ns = 5
    outbox.record(ROLE_CHANGED, PROPOSING, "why")
    then, standing.view = standing.view, NO_VIEW
    outbox.now_ns, standing.role = 6, PROPOSING
    (written,) = outbox.drain()
    assert isinstance(written, effects.WriteRecord)
    assert written.record == RoleChanged(Stamp(5, 5, OWN, then), PROPOSING, "why")
    assert written.record is written.record


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("slept", [False, True])
def test_whoever_can_go_on_is_tried_when_its_replica_goes_live(connected: bool, slept: bool) -> None:
    """Without connections no parked thread can whose time has not come: all are tried when anything happens.
    A call that is pending is made at once."""
    connections, log = FakeConnections(1, 1), list[Entry]()
    determinizer = Determinizer(ThreadMode.TOKEN, connections, log.append, lambda _: 1000, bytes)
    determinizer.start()
    determinizer.drain()
    determinizer.invoke(1, Sleep(50) if slept else Accept(), 0)
    determinizer.go_live(0, connected=connected)
    assert not log
    assert determinizer.engine.rests == (slept and not connected)
    connections.visible = 1
    determinizer.poke(60)
    assert [entry[0] for entry in log][:1] == [WAKE]


def test_what_happens_next_is_looked_at_whatever_made_it_the_primary() -> None:
    """It rests for the step in which it went live, also where the end of the step made it the primary."""
    with Playbook() as play:
        play.join("s1", alone=True)
        play.join("s2")
        play.run(200)
        for name in ("s1", "s2"):
            play[name].determinizer.engine.rests = True
            play.step(name, events.DeadlinePassed())
            assert not play[name].determinizer.engine.rests


def test_a_thread_whose_time_has_passed_goes_on_at_once() -> None:
    log = list[Entry]()
    determinizer = Determinizer(ThreadMode.TOKEN, FakeConnections(1, 0), log.append, lambda _: 1000, bytes)
    determinizer.start()
    determinizer.drain()
    determinizer.invoke(1, Sleep(50), 0)
    determinizer.go_live(60, connected=False)
    assert [entry[0] for entry in log] == [WAKE]
    assert determinizer.drain() == [("resume", 1, None)]
