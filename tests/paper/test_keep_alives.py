"""Lines 54-55 with several connections between two groups (D-44): one speaks for the quiet ones."""

from __future__ import annotations

from llft.config import Timeouts
from llft.core.determinizer.operations import Accept, Close, Connect, Receive, Send
from llft.instant import MS
from llft.journal.record import ConnectionEnded, Suspected
from llft.wire.messages import MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, Rule, connected

KEEP_ALIVE = MessageType.KEEP_ALIVE
INTERVAL_MS = 20
LONGEST_MS = 640
QUIET_MS = 3000
"""After so long all intervals are as long as they become."""


def twice_connected(play: Playbook, *, clients: int = 1) -> None:
    """Descriptors 1 and 2 at both ends; connection 2 was used last, and all is quiet."""
    connected(play, clients=clients)
    play.act("s", Accept())
    play.act("c", Connect(GROUP_IDS["s"]))
    play.until(lambda: len(play.results("c1")) == len(play.results("s1")) == 2)
    play.run(QUIET_MS)
    play.mark()


def count(play: Playbook, connection: int, by: str) -> int:
    sent = play.sent(KEEP_ALIVE, by, "c" if by.startswith("s") else "s")
    return sum(datagram.message.header.conn_seq_num == connection for datagram in sent)


def test_the_connection_used_last_is_kept_alive_as_ever_and_the_quiet_one_less_often() -> None:
    with Playbook() as play:
        twice_connected(play)
        play.run(10 * LONGEST_MS)
        assert 10 <= count(play, 1, "c1") <= 11
        assert count(play, 2, "c1") >= 10 * LONGEST_MS // INTERVAL_MS - 5
        quiet = sorted(count(play, connection, "s1") for connection in (1, 2))
        assert 10 <= quiet[0] <= 11
        assert quiet[1] > 300, "a server that said nothing has a speaker, too"


def test_traffic_ends_the_quiet_at_both_ends_and_moves_the_speaker() -> None:
    with Playbook() as play:
        twice_connected(play)
        play.act("s", Receive(1, 9), Send(1, b"reply"))
        play.act("c", Send(1, b"one"), Receive(1, 9))
        play.until(lambda: play.results("c1")[-1] == b"reply")
        play.mark()
        play.run(200)
        assert count(play, 1, "c1") >= 8
        assert count(play, 1, "s1") >= 8
        play.run(QUIET_MS)
        play.mark()
        play.run(2 * LONGEST_MS)
        assert count(play, 1, "s1") > 50, "it was sent on last"
        assert count(play, 2, "s1") <= 3
        assert count(play, 2, "c1") <= 3


def test_lists_are_empty_in_the_end_though_what_tells_it_was_lost_for_long() -> None:
    with Playbook() as play:
        twice_connected(play, clients=2)
        play.act("s", Receive(1, 9))
        play.act("c", Send(1, b"one"))
        with play.dropping(Rule((KEEP_ALIVE,), by="s1", to="c1"), Rule((MessageType.FIRST_ACK,), by="s1")):
            play.run(1000)
            assert play["c1"].statistics()["sent_list"] == 1
        play.run(LONGEST_MS + 100)
        for name in ("c1", "c2", "s1", "s2"):
            statistics = play[name].statistics()
            lists = [key for key in statistics if key.endswith("_list")]
            assert {key: statistics[key] for key in lists if statistics[key]} == {}, name


def test_a_reset_that_was_lost_is_found_out_within_the_longest_interval() -> None:
    with Playbook() as play:
        twice_connected(play)
        play.act("c", Receive(1, 9))
        connection = next(iter(play["s1"].messaging.table))
        with play.dropping(Rule((KEEP_ALIVE,), by="s1", to="c1")):
            play["s1"].reset_connection(connection, "for the test")
            play.act("s", Close(1))
            play.run(15)
        play.run(LONGEST_MS + 50)
        assert len(play.results("c1")) == 3, "the read has ended"
        ended = play.recorded(ConnectionEnded, "c1")
        assert [record.reason for record in ended] == ["reset by the remote group"]
        assert len(play.recorded(ConnectionEnded, "s")) == 2


def test_a_new_primary_keeps_all_alive_at_first_and_a_group_that_is_gone_is_noticed() -> None:
    with Playbook(timeouts=Timeouts(idle_connection_bound_ns=2000 * MS)) as play:
        twice_connected(play)
        play.crash("s1")
        play.until(lambda: play["s2"].role == "primary")
        assert [record.reason for record in play.recorded(Suspected)] == ["timeout"]
        play.run(30)
        play.mark()
        play.run(140)
        assert count(play, 1, "s2") >= 6
        assert count(play, 2, "s2") >= 6
        play.crash("s2")
        play.act("c", Receive(1, 9))
        play.run(1800)
        assert len(play.results("c1")) == 2
        play.run(300)
        assert len(play.results("c1")) == 3, "the idle bound is exact, however rare KeepAlives are"
        assert len(play.recorded(ConnectionEnded, "c1")) == 2
