"""Whose bytes a follower reads (D-47): those of the view that the log names, or of one that its own group has
agreed with. A newer view of the remote group may be another branch, with other bytes at the same places."""

from __future__ import annotations

from dataclasses import replace

from llft.core import events
from llft.core.determinizer.operations import ReadClock, Receive, Send
from llft.identifiers import BirthId, ViewId
from llft.journal.record import ConnectionEnded, Delivered, Suspected
from llft.wire.codec import encode
from llft.wire.messages import Message, MessageFlag, MessageType
from tests.paper.playbook import Playbook, Rule, connected

REQUEST, REPLY, NACK = MessageType.REQUEST, MessageType.REPLY, MessageType.NACK
OTHER_VIEW = ViewId(2, 2, BirthId(7, 7, 7))


def s1_reads_and_s2_knows(play: Playbook) -> None:
    """s1 reads "first"; s2 is to do the same, but does not get the message."""
    play.act("s", Receive(1, 9))
    play.act("c", ReadClock(), Send(1, b"first"))
    with play.dropping(Rule((REQUEST,), to="s2")):
        play.until(lambda: _waits(play, "s2"), ms=12)
    assert (play.results("s1")[1:], play.results("s2")[1:]) == ([b"first"], [])


def s1_reads_and_s2_knows_nothing(play: Playbook) -> None:
    play.act("s", Receive(1, 9))
    play.act("c", Send(1, b"first"))
    play.until(lambda: b"first" in play.results("s1"), ms=12)
    play["s1"].messaging.lane.flush()
    play.in_flight.clear()


def _waits(play: Playbook, name: str) -> bool:
    cursor = play[name].cursor
    return cursor is not None and cursor.waiting is not None


def suspects(play: Playbook) -> list[str]:
    return sorted(play.name_of(record.suspect) for record in play.recorded(Suspected))


def inject(play: Playbook, target: str, payload: bytes, flags: MessageFlag = MessageFlag.NONE) -> None:
    """The last Request or Reply that was sent, as a primary of another branch would say it."""
    last = [one for one in play.log if one.kind in (REQUEST, REPLY)][-1].message.header
    header = replace(last, source_view=OTHER_VIEW, flags=flags)
    play.step(target, events.MessageReceived(encode(Message(header, payload=payload))))


def test_a_new_primary_does_not_read_from_a_view_it_has_not_agreed_with() -> None:
    """Both primaries fail. c2 does not know what time c1 read, and writes something else then."""
    with Playbook() as play:
        connected(play, clients=2)
        with play.dropping(Rule(by="c1", to="c2"), Rule(by="s", to="c2")):
            s1_reads_and_s2_knows(play)
        play.crash("s1")
        play.crash("c1")
        play.in_flight.clear()
        play.scripts["c"][-1] = Send(1, b"branch")
        play.mark()
        play.until(lambda: len(play.results("s2")) == 2, ms=400)
        assert play.results("s2")[1] == b"branch", "and not its first five bytes, as s1 read five"
        assert [one.stamp.view for one in play.recorded(Delivered, "s2")] == [play["s2"].view]
        assert play.sent(NACK, "s2", "c"), "it was asked for"
        assert suspects(play) == ["c1", "s1"]
        assert play.recorded(ConnectionEnded) == []
        play.drop()


def test_what_was_read_in_an_older_view_is_sent_again_in_its_name() -> None:
    """c2 has agreed with s1 before s1 fails, too; s2 has never heard of c2's view."""
    with Playbook() as play:
        connected(play, clients=2)
        s1_reads_and_s2_knows(play)
        old_view = play["c1"].view
        with play.dropping(Rule((REQUEST,), to="s2")):
            play.crash("c1")
            play.until(lambda: play["c2"].role == "primary" and play["c2"].messaging.table.by_fd[1].settled)
            play.run(5)
        assert not play.results("s2")[1:]
        play.crash("s1")
        play.in_flight.clear()
        play.mark()
        play.until(lambda: play["s2"].role == "primary", ms=200)
        assert play.results("s2")[1:] == [b"first"]
        again = play.sent(REQUEST, "c2", "s")[0]
        assert (again.message.header.source_view, again.message.payload) == (old_view, b"first")
        play.record_count_at_mark = 0
        assert suspects(play) == ["c1", "s1"]
        assert play.recorded(ConnectionEnded) == []
        play.drop()


def test_a_backup_takes_a_newer_view_from_its_own_group_only() -> None:
    with Playbook() as play:
        connected(play, clients=2)
        s1_reads_and_s2_knows(play)
        play.in_flight.clear()
        connection = play["s2"].messaging.table.by_fd[1]
        view = connection.in_view
        inject(play, "s2", b"other")
        assert (connection.in_view, play.results("s2")[1:]) == (view, [])
        inject(play, "s2", b"first", MessageFlag.PASSED_ON)
        assert (connection.in_view, play.results("s2")[1:]) == (OTHER_VIEW, [b"first"])
        play.drop()


def test_a_backup_learns_its_own_order_information_whatever_view_reflects_it() -> None:
    """D-49: its primary will not carry again what has been reflected."""
    with Playbook() as play:
        connected(play, clients=2)
        s1_reads_and_s2_knows_nothing(play)
        orders, known = play["s1"].messaging.lane.orders, play["s2"].messaging.lane.orders
        assert known.end < orders.end
        last = [one for one in play.log if one.kind == REQUEST][-1].message.header
        header = replace(last, source_view=OTHER_VIEW, dest_view=play["s2"].view)
        piece = orders.slice(known.end, orders.end)
        said = Message(header, reflected_start=known.end, reflected_bytes=piece, payload=b"other")
        play.step("s2", events.MessageReceived(encode(said)))
        assert known.end == orders.end
        assert play["s2"].messaging.table.by_fd[1].in_view != OTHER_VIEW
        play.drop()


def test_what_came_first_in_another_view_than_the_log_names_is_void() -> None:
    """The first Reply that c2 gets is of a branch that c1 never heard of."""
    with Playbook() as play:
        connected(play, clients=2)
        play.act("s", Send(1, b"reply"))
        play.drop(Rule((REPLY,), to="c2"))
        inject(play, "c2", b"other")
        play.act("c", Receive(1, 9))
        play.run(30)
        assert play.results("c1")[1:] == play.results("c2")[1:] == [b"reply"]
        assert play["c2"].messaging.table.by_fd[1].in_view == play["s1"].view
        play.drop()
