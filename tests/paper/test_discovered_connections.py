"""Line 29 for connections that a new primary gets to know only while it recovers (D-45): s1 opens one to the
group "t" and speaks on it. D-24 sees to it that s3 knows of that; s2 does not, and is the next primary."""

from __future__ import annotations

from llft.core.determinizer.operations import Accept, Connect, Operation, ReadClock, Receive, Send
from llft.journal.record import ConnectionEnded, Latency, Suspected
from llft.wire.messages import UNSETTLED, MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, Rule, connected

NEW_VIEW = MessageType.NEW_PRIMARY_VIEW
TO_T = Connect(GROUP_IDS["t"])


def unknown_to_s2(play: Playbook, *operations: Operation, crashed: tuple[str, ...]) -> list[object]:
    """s1 does this, s2 hears nothing of it and s3 not of what "t" answers; the results of s1."""
    connected(play, servers=3)
    play.join("t1", alone=True)
    play.act("t", Accept(), Receive(1, 9), Send(1, b"answer"))
    play.act("c", Receive(1, 9))
    play.act("s", *operations)
    with play.dropping(Rule(to="s2"), Rule(by="t", to="s3")):
        play.until(lambda: len(play.results("s1")) == 1 + len(operations), ms=12)
        play.deliver()
    did = list(play.results("s1"))
    assert len(play.results("s2")) == 1
    assert play.results("t1")[1] == b"ask"
    for name in crashed:
        play.crash(name)
    play.in_flight.clear()
    play.mark()
    return did


def recovered(play: Playbook) -> None:
    """s2 is primary, has asked "t" before, and nobody had to be waited for in vain."""
    play.until(lambda: play["s2"].role == "primary", ms=200)
    assert play.sent(NEW_VIEW, "s2", "t")[0].message.header.view_start == UNSETTLED
    (recovery,) = [one for one in play.recorded(Latency, "s2") if one.what == "recovery"]
    assert recovery.duration_ns < play["s2"].config.timeouts.recovery_bound_ns
    assert [play.name_of(one.suspect) for one in play.recorded(Suspected)] == ["s1"]


def goes_on_with_t(play: Playbook) -> None:
    play.act("t", Receive(1, 9))
    play.act("s", Send(2, b"more"))
    play.run(60)
    assert play.results("t1")[1:] == [b"ask", 6, b"more"], "each once"
    assert play.recorded(ConnectionEnded) == []
    play.drop()


def test_a_group_that_only_another_member_knew_of_is_asked() -> None:
    """What was done after the connection was opened, "t" alone knows."""
    with Playbook() as play:
        did = unknown_to_s2(play, TO_T, ReadClock(), Send(2, b"ask"), crashed=("s1",))
        recovered(play)
        assert play.results("s2") == did, "the clock reading, too"
        goes_on_with_t(play)


def test_a_group_that_only_a_remote_group_knew_of_is_asked() -> None:
    """The client has the order information that opened the connection, "t" what came after."""
    with Playbook() as play:
        at_once = Connect(GROUP_IDS["t"], blocking=False)
        operations = (at_once, Send(1, b"opened"), ReadClock(), Send(2, b"ask"))
        did = unknown_to_s2(play, *operations, crashed=("s1", "s3"))
        recovered(play)
        assert play.results("s2") == did, "the clock reading, too"
        goes_on_with_t(play)


def test_what_was_read_on_such_a_connection_is_sent_again() -> None:
    """The client has all the order information, but the message that it orders has to come from "t"."""
    with Playbook() as play:
        operations = (TO_T, Send(2, b"ask"), Receive(2, 9), Send(1, b"done"))
        did = unknown_to_s2(play, *operations, crashed=("s1",))
        recovered(play)
        assert play.results("s2") == did
        assert did[3] == b"answer"
        goes_on_with_t(play)
