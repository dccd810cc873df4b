"""A message of which the application has read a part: it is neither delivered nor unread."""

from __future__ import annotations

import pytest

from llft.config import Replication
from llft.core.determinizer.operations import Accept, Close, Connect, Receive, Send
from llft.core.view_change import OTHER_BRANCH
from llft.identifiers import BirthId, ViewId
from llft.journal.record import ConnectionEnded, Suspected
from llft.wire.messages import MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, Rule, connected

REQUEST = MessageType.REQUEST


@pytest.mark.parametrize("size", [5, 3])
def test_a_state_update_leaves_what_another_backup_misses(size: int) -> None:
    """s1 reads of the first message and closes; s2 has the first alone, s3 has none, and s1 dies."""
    with Playbook(replication=Replication.SEMI_PASSIVE) as play:
        connected(play, servers=3)
        with play.dropping(Rule((REQUEST,), to="s3"), Rule((REQUEST,), to="s2", position=3)):
            play.act("c", Send(1, b"hello"), Send(1, b"tail"))
            play.run(5)
            play.act("s", Receive(1, size), Close(1))
            play.until(lambda: play["s2"].messaging.table.by_fd[1].closed_here, ms=200)
        play.crash("s1")
        play.until(lambda: play["s2"].role == "primary", ms=600)
        play.run(500)
        orders = play["s2"].messaging.lane.orders
        assert list(play["s2"].messaging.watermarks.of_member.values()) == [orders.end]
        assert play.recorded(Suspected)


@pytest.mark.parametrize("fd", [1, 2])
@pytest.mark.parametrize("size", [6, 3])
def test_what_was_read_of_another_branch_is_noticed(fd: int, size: int) -> None:
    """c has read of a reply in an old view of s. The branch of s that lives has sent another one there."""
    with Playbook() as play:
        connected(play, clients=2)
        play.act("s", Accept())
        play.act("c", Connect(GROUP_IDS["s"]))
        play.run(60)
        play.act("s", Send(1, b"abcdef"), Send(2, b"abcdef"))
        play.run(5)
        play.act("c", Receive(fd, size))
        play.run(60)
        sender = play["s1"].messaging.table.by_fd[fd]
        if sender.sent:
            sender.sent[0] = sender.sent[0]._replace(digest=12345, payload=b"BRANCH")
        else:
            sender.collected_digest = 12345
        play["c2"].messaging.table.by_fd[fd].delivered_view = ViewId(1, 0, BirthId(9, 9, 9))
        play.crash("c1")
        play.until(lambda: play["c2"].role == "primary", ms=400)
        play.run(200)
        assert play.recorded(Suspected)
        assert OTHER_BRANCH in {record.reason for record in play.recorded(ConnectionEnded)}
