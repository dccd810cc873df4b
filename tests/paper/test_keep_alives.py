"""Lines 54-55 with several connections between two groups (D-44): one speaks for the quiet ones."""

from __future__ import annotations

import pytest

from llft.config import Limits, Timeouts
from llft.core.determinizer.operations import Accept, Close, Connect, Receive, Send
from llft.instant import MS
from llft.journal.record import ConnectionEnded, Suspected
from llft.wire.messages import MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, Rule, connected

KEEP_ALIVE = MessageType.KEEP_ALIVE
INTERVAL_MS = 20
CALM_MS = 80
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
        assert count(play, 2, "c1") <= 3
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
        play.run(4 * CALM_MS)
        spoken = sorted(count(play, connection, "s2") for connection in (1, 2))
        assert spoken[0] >= 3, "it has begun anew"
        assert spoken[1] >= 4 * CALM_MS // INTERVAL_MS - 4
        play.crash("s2")
        play.act("c", Receive(1, 9))
        play.run(1800)
        assert len(play.results("c1")) == 2
        play.run(300)
        assert len(play.results("c1")) == 3, "the idle bound is exact, however rare KeepAlives are"
        assert len(play.recorded(ConnectionEnded, "c1")) == 2


@pytest.mark.parametrize("lost", [MessageType.REQUEST, MessageType.REPLY])
def test_a_last_message_that_was_lost_is_missed_within_an_interval(lost: MessageType) -> None:
    with Playbook(timeouts=Timeouts(retransmit_interval_ns=500 * MS)) as play:
        twice_connected(play)
        play.act("s", Receive(1, 9), Send(1, b"1"), Receive(2, 9), Send(2, b"2"))
        with play.dropping(Rule((lost,))):
            play.act("c", Send(1, b"one"), Send(2, b"two"), Receive(1, 9), Receive(2, 9))
            play.run(5)
            assert len(play.results("c1")) == 4
        play.run(INTERVAL_MS + 15)
        assert play.results("c1")[4:] == [b"1", b"2"], "though one of them is not the speaker"


def test_an_answered_connection_says_nothing_while_the_next_request_may_come() -> None:
    with Playbook() as play:
        twice_connected(play)
        play.act("s", Receive(1, 9), Send(1, b"reply"), Receive(2, 9), Send(2, b"reply"))
        play.act("c", Send(1, b"one"), Receive(1, 9), Send(2, b"two"), Receive(2, 9))
        play.until(lambda: len(play.results("c1")) == 6)
        play.mark()
        play.run(CALM_MS - 20)
        assert count(play, 1, "c1") == 0
        assert count(play, 2, "c1") >= 2, "the speaker"


class TestPatience:
    """A message that came alone is acknowledged later than one of several."""

    PATIENCE = Timeouts(first_ack_delay_ns=2 * MS, first_ack_patience_ns=4 * MS)

    def first_acks_after(self, play: Playbook, ms: int) -> int:
        play.mark()
        play.run(ms)
        return len(play.sent(MessageType.FIRST_ACK, "s1"))

    def test_one_message_alone_may_be_answered(self) -> None:
        with Playbook(timeouts=self.PATIENCE) as play:
            connected(play)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.act("c", Send(1, b"one"))
            play.run(100)
            play.act("c", Send(1, b"one"))
            assert self.first_acks_after(play, 3) == 0
            assert self.first_acks_after(play, 3) == 1

    def test_the_second_one_makes_it_urgent(self) -> None:
        with Playbook(timeouts=self.PATIENCE) as play:
            connected(play)
            play.run(100)
            play.act("c", Send(1, b"one"), Send(1, b"two"))
            assert self.first_acks_after(play, 3) == 1

    def test_an_answer_is_the_acknowledgment(self) -> None:
        with Playbook(timeouts=self.PATIENCE) as play:
            connected(play)
            play.run(100)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.act("c", Send(1, b"one"))
            assert self.first_acks_after(play, 50) == 0


def test_a_connection_that_nobody_has_accepted_is_kept_alive_at_the_interval() -> None:
    with Playbook() as play:
        connected(play)
        play.act("c", Connect(GROUP_IDS["s"]), Connect(GROUP_IDS["s"]))
        play.run(QUIET_MS)
        play.mark()
        play.run(10 * INTERVAL_MS)
        assert count(play, 2, "c1") >= 9
        assert count(play, 3, "c1") >= 9
        assert play.sent(KEEP_ALIVE, "s2", "c") == [], "a backup need not ask whether it is wanted still"


def test_a_window_that_empties_is_told_of_within_an_interval() -> None:
    limits = Limits(window_messages=4)
    with Playbook(limits=limits, timeouts=Timeouts(keep_alive_interval_ns=20 * MS)) as play:
        twice_connected(play)
        play.act("c", *(Send(1, b"m") for _ in range(8)))
        play.run(1)
        play.act("s", Send(2, b"speaker"))
        for _ in range(8):
            play.act("s", Receive(1, 1))
            play.run(6)
        play.run(2 * INTERVAL_MS)
        assert play.results("s1")[-8:] == [b"m"] * 8
