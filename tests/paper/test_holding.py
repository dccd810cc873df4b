"""Whom a backup tells that it holds what it was asked for, and who believes it (D-75)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llft.core.determinizer.operations import ReadClock, Receive, Send
from llft.identifiers import NO_BIRTH
from llft.journal.record import Suspected
from llft.wire.codec import decode, encode, plain_held
from llft.wire.messages import MessageType, StateAckBody
from tests.paper.playbook import GROUP_IDS, Playbook, Rule, connected

HELD, KEEP_ALIVE, REQUEST = MessageType.HELD, MessageType.KEEP_ALIVE, MessageType.REQUEST


@contextmanager
def asked(servers: int = 2, *, dropping: tuple[Rule, ...] = ()) -> Iterator[Playbook]:
    """A gateway's request is answered, and output waits for the commit."""
    with Playbook(output_commit_level=1) as play:
        connected(play, servers=servers, outside=True)
        play.run(100)
        play.mark()
        with play.dropping(*dropping):
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.act("c", Send(1, b"one"), Receive(1, 9))
            play.run(0.5)
            yield play


def is_out(play: Playbook) -> bool:
    return bool(play.results("c1")[-1] == b"reply")


def test_the_backup_tells_the_gateway_itself() -> None:
    with asked(servers=3, dropping=(Rule(to="s1", by="s2"), Rule((KEEP_ALIVE,), to="c"))) as play:
        assert is_out(play), "without the primary"
        lane = play["s1"].messaging.lane
        assert lane.order_committed < lane.orders.end
        play.run(5)
        assert lane.order_committed == lane.orders.end, "an answer that is overdue is asked of all"


def test_what_the_gateway_does_not_hear_the_primary_tells_with_its_next_keep_alive() -> None:
    with asked(dropping=(Rule((HELD,), to="c"),)) as play:
        assert not is_out(play)
        play.run(20)
        assert is_out(play)


def test_it_is_said_when_the_messages_are_here_too() -> None:
    with asked(dropping=(Rule((REQUEST,), to="s2", limit=1),)) as play:
        assert not play.sent(HELD)
        assert play["s2"].asking.holding.wanted_end == play["s1"].messaging.lane.orders.end
        assert not is_out(play)
        play.run(50)
        assert is_out(play)
        assert not play["s2"].asking.holding.wanted_end


def test_it_is_believed_of_the_view_that_it_was_said_in_only() -> None:
    with asked(dropping=(Rule((HELD,), to="c"),)) as play:
        said = play.sent(HELD, to="c")[0]
        gateway = play["c1"]
        held = gateway.messaging.lane.held[GROUP_IDS["s"]]
        view, before = held.view, held.committed
        header = said.message.header
        header.source_view = view._replace(primary_view_num=view.primary_view_num + 1)
        gateway.asking.holding.on_remote_held(header, said.body)
        assert held.committed == before
        header.source_view = view
        gateway.asking.holding.on_remote_held(header, said.body)
        assert held.committed > before


def test_a_question_of_an_old_view_is_not_answered() -> None:
    with asked(dropping=(Rule((REQUEST,), to="s2", limit=1),)) as play:
        assert play["s2"].asking.holding.wanted_end
        play.crash("s1")
        play.until(lambda: play["s2"].role == "primary")
        assert not play["s2"].asking.holding.wanted_end
        play.run(50)
        assert play.sent(HELD) == []
        assert play.recorded(Suspected, "s2")


def test_who_could_not_take_over_says_that_instead() -> None:
    with Playbook(output_commit_level=1) as play:
        connected(play, outside=True)
        play.run(50)
        play["s2"].standing.has_past = False
        play["s2"].asking.holding.on_question(5)
        assert not play["s2"].asking.holding.wanted_end
        assert play["s2"].asking.answer_wanted
        play.run(50)


def test_at_level_0_only_the_primary_wants_to_know() -> None:
    """A connection's birth (D-24)."""
    with Playbook(output_commit_level=0) as play:
        connected(play, outside=True)
        play.run(50)
        assert play["s2"].asking.holding.who_waits() == []
        play["s2"].asking.holding.on_question(play["s2"].own_watermark())
        play.run(50)
        assert len(play.sent(HELD, "s2", "s1")) == len(play.sent(HELD)) == 1


def test_more_than_there_is_nobody_holds() -> None:
    with Playbook(output_commit_level=1) as play:
        connected(play, outside=True)
        play.run(50)
        primary, backup = play["s1"], play["s2"].asking.holding
        play.act("s", ReadClock())
        lane, before = primary.messaging.lane, primary.messaging.lane.order_committed
        lane.flush()
        for sender, end in ((play["s2"].standing.birth_id, lane.orders.end + 1), (NO_BIRTH, lane.orders.end)):
            primary.asking.holding.on_held(backup.header(), StateAckBody(sender, end))
        assert lane.order_committed == before < lane.orders.end
        play.run(50)
        assert NO_BIRTH not in play["s1"].messaging.watermarks.of_member


def test_a_held_that_says_more_is_looked_at_in_full() -> None:
    with asked(dropping=(Rule((HELD,), to="c"),)) as play:
        said = encode(play.sent(HELD, to="c")[0].message)
        gateway = play["c1"]
        held = gateway.messaging.lane.held[GROUP_IDS["s"]]
        before = held.committed
        for damaged in (said[:-1], said[:2] + b"\x02" + said[3:]):
            gateway.inbox.on_datagram(damaged)
        assert gateway.inbox.malformed == 2
        assert plain_held(encode(play.sent(HELD, to="s1")[0].message)) is not None
        gateway.inbox.on_datagram(encode(play.sent(HELD, to="s1")[0].message))
        assert gateway.inbox.misdirected == 1
        assert held.committed == before
        message = decode(said)
        message.header.timestamp = 1
        assert plain_held(encode(message)) is None
        gateway.inbox.on_datagram(encode(message))
        assert held.committed > before, "it is a Held all the same"
