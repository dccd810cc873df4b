"""Line 29 asks about all connections; where something waits to be read, somebody waits for the answer."""

from __future__ import annotations

from llft.core.determinizer.operations import Accept, Connect, Send
from llft.journal.record import Suspected
from llft.wire.messages import MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, connected


def test_connections_with_unread_requests_are_asked_about_first() -> None:
    with Playbook() as play:
        connected(play, servers=2)
        for count in (2, 3):
            play.act("s", Accept())
            play.act("c", Connect(GROUP_IDS["s"]))
            play.until(lambda: len(play.results("c1")) == len(play.results("s1")) == count)  # noqa: B023
        play.run(60)
        play.act("c", Send(play.results("c1")[1], b"a request that nobody has read"))
        play.run(2)
        dead = play["s1"].standing.birth_id
        play.crash("s1")
        play.mark()
        play.certify(dead, "s2")
        questions = play.sent(MessageType.NEW_PRIMARY_VIEW, "s2")
        asked = [each.message.header.conn_seq_num for each in questions]
        assert asked == [2, 1, 3]
        play.run(5)
        assert play["s2"].role == "primary"
        assert [each.suspect for each in play.recorded(Suspected)] == [dead]
