"""What comes late in an old view, on a connection that has not heard of the new one."""

from __future__ import annotations

import pytest

from llft.core import events
from llft.core.determinizer.operations import Accept, Connect, ReadClock, Receive, Send
from llft.core.membership.recovery import Recovery
from llft.identifiers import BirthId, ViewId
from llft.instant import MS
from llft.journal.record import Suspected
from llft.wire.messages import UNSETTLED, MessageType, OrderRange
from tests.paper.playbook import GROUP_IDS, Playbook, connected

REQUEST = MessageType.REQUEST


def converse(play: Playbook) -> None:
    """Until the lane knows both connections."""
    for _ in range(3):
        play.act("s", Receive(1, 9), Send(1, b"r"), Receive(2, 9), Send(2, b"r"))
        play.act("c", Send(1, b"x"), Receive(1, 9), Send(2, b"y"), Receive(2, 9))
        play.run(40)


def test_order_information_of_an_old_view_is_not_held_as_the_new_one_s() -> None:
    """c1 speaks on the second connection and dies; that reaches s2 after c2 has spoken on the first."""
    with Playbook() as play:
        connected(play, clients=2)
        play.act("s", Accept())
        play.act("c", Connect(GROUP_IDS["s"]))
        play.run(60)
        converse(play)
        play.act("c", ReadClock(), Send(2, b"late"))
        late = [p.datagram.data for p in play.in_flight if p.datagram.kind == REQUEST and p.target == "s2"]
        assert late
        play.in_flight.clear()
        play.crash("c1")
        play.until(lambda: play["c2"].role == "primary", ms=300)
        assert play.recorded(Suspected, "c2")
        play.run(30)
        for text in (b"new", b"newer"):
            play.act("s", Receive(1, 9))
            play.act("c", Send(1, text))
            play.run(30)
        lane, second = play["s2"].messaging.lane, play["s2"].messaging.table.by_fd[2]
        held = lane.held[GROUP_IDS["c"]]
        assert (held.view, second.in_view != held.view) == (play["c2"].view, True)
        before = list(held.pieces)
        for data in late:
            play.step("s2", events.MessageReceived(data))
        assert held.pieces == before
        play.drop()


@pytest.mark.parametrize("late_ms", [0, 6, 9])
def test_a_backup_that_is_a_little_late_with_its_beats_still_suspects(late_ms: int) -> None:
    """It has nothing else to do when its primary is silent, so its steps are two intervals apart (D-48)."""
    with Playbook() as play:
        connected(play, clients=1)
        play.crash("s1")
        play.in_flight.clear()
        core = play["s2"]
        for _ in range(20):
            play.now_ns = max(play.now_ns, core.next_deadline() + late_ms * MS)
            play.step("s2", events.DeadlinePassed())
            if play.recorded(Suspected, "s2"):
                break
        assert [record.reason for record in play.recorded(Suspected, "s2")] == ["timeout"]
        play.drop()


def test_what_a_pruned_branch_ordered_beyond_the_start_of_a_view_that_one_follows_is_void() -> None:
    """The remote group was with that branch, and has not heard of the view (partition 172)."""
    first, second, third = (ViewId(number, number, BirthId(number, number, 1)) for number in (1, 2, 3))
    recovery = Recovery(order_ends={}, started_ns=0)
    recovery.pieces = [OrderRange(first, 0, 90, b"0123456789pruned")]
    lineage = [first, second, third]
    assert recovery.usable_pieces(lineage, second, 100) == [(90, b"0123456789")]
    assert recovery.usable_pieces(lineage, second, 90) == []
    assert recovery.usable_pieces(lineage, first, 0) == [(90, b"0123456789pruned")]
    assert recovery.usable_pieces([first, third], second, 100) == [(90, b"0123456789pruned")]
    recovery.pieces.append(OrderRange(third, 95, 95, b"later"))
    assert recovery.usable_pieces(lineage, second, 100) == [(90, b"01234"), (95, b"later")]
    assert recovery.usable_pieces(lineage, second, UNSETTLED) == [(90, b"01234"), (95, b"later")]
