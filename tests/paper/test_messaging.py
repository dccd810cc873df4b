"""The Messaging Protocol figure: a group "c" of clients, a group "s" of servers, one connection.

Position 1 on the connection is the message that opened it, so what the client sends has positions 2, 3, ...
"""

from __future__ import annotations

from llft.config import Limits, Timeouts
from llft.core.determinizer.operations import Connect, ReadClock, Receive, Send
from llft.core.events import MessageReceived, SwitchRequested
from llft.instant import MS
from llft.journal.record import ConnectionEnded, Sent, Superseded, Suspected
from llft.wire.messages import MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, Rule, connected

REQUEST, REPLY, NACK = MessageType.REQUEST, MessageType.REPLY, MessageType.NACK
FIRST_ACK, SECOND_ACK = MessageType.FIRST_ACK, MessageType.SECOND_ACK
KEEP_ALIVE, HEARTBEAT, HELD = MessageType.KEEP_ALIVE, MessageType.HEARTBEAT, MessageType.HELD

MAX_ACK = 8


def length(play: Playbook, name: str, which: str) -> int:
    return play[name].statistics()[f"{which}_list"]


class TestSending:
    def test_lines_1_to_17_a_message_has_its_numbers_and_its_order_information(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.mark()
            play.act("c", Send(1, b"one"), Send(1, b"two"))
            first, second = play.sent(REQUEST, "c1", "s")
            assert (first.position, second.position) == (2, 3)
            assert second.message.header.timestamp == first.message.header.timestamp + 1
            assert first.message.header.source_view.precedence == 1
            assert first.message.payload == b"one"
            assert first.message.order_bytes != b""
            assert second.message.order_bytes.startswith(first.message.order_bytes), "not reflected yet"
            assert length(play, "c1", "sent") == 2
            play.drop()

    def test_line_10_the_ack_field_names_the_last_message_received_without_a_gap(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.mark()
            play.act("c", Send(1, b"one"))
            play.deliver()
            (reply,) = play.sent(REPLY, "s1", "c")
            assert reply.message.header.ack == 2
            assert reply.message.header.ack_view_num == 1
            play.drop()

    def test_lines_7_and_15_a_backup_generates_and_does_not_multicast(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.mark()
            play.act("c", Send(1, b"one"))
            assert play.results("c2") == [1], "no order information, no send"
            play.run(1)
            play.until(lambda: play.results("c2") == [1, 3])
            (mine,), (copy,) = play.recorded(Sent, "c1"), play.recorded(Sent, "c2")
            assert mine[1:] == copy[1:], "alike in position, timestamp and digest"
            assert play.sent(REQUEST, "c2") == []
            play.drop()

    def test_lines_14_and_33_order_information_is_reflected_until_the_sender_knows(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.mark()
            play.act("c", Send(1, b"one"))
            (request,) = play.sent(REQUEST, "c1")
            play.deliver()
            (reply,) = play.sent(REPLY, "s1")
            assert reply.message.reflected_bytes == request.message.order_bytes
            assert reply.message.reflected_start == request.message.order_start
            play.deliver()
            play.mark()
            play.act("c", Send(1, b"two"))
            (request,) = play.sent(REQUEST, "c1")
            end = reply.message.reflected_start + len(reply.message.reflected_bytes)
            assert request.message.order_start == end, "what came back is not carried again"
            play.drop()


class TestReceiving:
    def test_lines_18_to_20_who_is_superseded_passes_it_on_and_rejoins(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.partition(("s1", "s3"), ("s2", "c1"))
            play.until(lambda: play["s2"].role == "primary")
            play.run(60)
            assert [play.name_of(record.suspect) for record in play.recorded(Suspected)] == ["s1", "s2"]
            play.mark()
            play.heal()
            with play.dropping(Rule(by="s2", to="s"), Rule(by="c1", to="s3")):
                play.until(lambda: "s1" not in play.cores and "s3" not in play.cores)
            assert "superseded" in play.left("s1")
            assert "superseded" in play.left("s3"), "it heard of it through s1"
            assert play.recorded(Superseded)[0].by == play["s2"].view
            passed_on = [one for one in play.log if one.source == "s1" and one.to == "s"]
            assert any(one.message.header.source_group_id == 1 for one in passed_on)
            play.drop()

    def test_line_18_no_messages_of_the_view_that_is_followed_are_accepted(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9))
            play.act("c", Send(1, b"one"))
            play.deliver()
            assert play.results("s1")[1:] == [b"one"]
            play.drop()

    def test_lines_22_to_25_and_49_to_50_a_gap_is_nacked_to_the_remote_group(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 3), Receive(1, 3), Receive(1, 9))
            play.mark()
            play.act("c", Send(1, b"one"), Send(1, b"two"), Send(1, b"three"))
            play.drop(Rule((REQUEST,), to="s1", position=2))
            play.deliver()
            assert length(play, "s1", "nack") == 1
            assert length(play, "s1", "received") == 2
            assert play.results("s1")[1:] == [], "nothing is delivered past a placeholder (line 35)"
            play.tick(4)
            nack = play.sent(NACK, "s1", "c")[0]
            assert nack.body.positions == ((2, ()),)
            play.run(1)
            assert play.results("s1")[1:] == [b"one", b"two", b"three"]
            assert length(play, "s1", "nack") == 0

    def test_line_50_a_nack_is_repeated(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("c", Send(1, b"one"), Send(1, b"two"))
            play.mark()
            with play.dropping(Rule((REQUEST,), to="s1", position=2), Rule((NACK,), by="s1")):
                play.run(8)
            assert len(play.sent(NACK, "s1", "c")) >= 2
            play.drop()

    def test_lines_26_to_29_a_retransmission_replaces_the_placeholder(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 3))
            play.act("c", Send(1, b"one"), Send(1, b"two"))
            late = next(one for one in play.in_flight if one.target == "s1" and one.datagram.position == 2)
            play.drop(Rule((REQUEST,), to="s1", position=2))
            play.deliver()
            assert length(play, "s1", "nack") == 1
            play.step("s1", MessageReceived(late.datagram.data))
            assert length(play, "s1", "nack") == 0
            assert play.results("s1")[1:] == [b"one"]
            play.drop()

    def test_line_30_a_message_that_is_here_is_discarded(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Receive(1, 9))
            play.mark()
            play.act("c", Send(1, b"one"))
            (request,) = play.sent(REQUEST)
            play.run(30)
            for name in ("s1", "s2"):
                play.step(name, MessageReceived(request.data))
                assert play.results(name)[1:] == [b"one"]
                assert length(play, name, "received") == 0
            play.drop()

    def test_lines_31_and_32_the_expected_message_is_acknowledged(self) -> None:
        with Playbook() as play:
            connected(play)
            play.mark()
            play.act("c", Send(1, b"one"), Send(1, b"two"))
            play.run(3)
            assert play.sent(FIRST_ACK, "s1")[-1].message.header.ack == 3
            assert length(play, "s1", "received") == 2
            play.drop()


class TestDelivering:
    def test_lines_36_to_41_the_primary_delivers_at_once_the_backup_when_it_knows_the_order(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9))
            play.act("c", Send(1, b"one"))
            assert play.deliver(Rule((REQUEST,))) == 2
            assert play.results("s1")[1:] == [b"one"]
            assert play.results("s2")[1:] == []
            assert length(play, "s2", "received") == 1
            play.run(60)
            assert play.results("s2")[1:] == [b"one"]

    def test_line_40_no_the_order_of_a_message_that_is_not_here(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.mark()
            with play.dropping(Rule((REQUEST,), to="s2"), Rule((NACK,), by="s2")):
                play.act("c", Send(1, b"one"))
                play.run(30)
                assert play.results("s2")[1:] == []
                assert length(play, "s2", "nack") == 1
            play.run(10)
            assert play.results("s2")[1:] == [b"one", 5]

    def test_lines_42_and_43_what_is_delivered_moves_to_the_delivered_list(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("c", Send(1, b"one"))
            play.deliver()
            assert (length(play, "s1", "received"), length(play, "s1", "delivered")) == (1, 0)
            play.act("s", Receive(1, 2))
            assert (length(play, "s1", "received"), length(play, "s1", "delivered")) == (1, 0), "half of it"
            play.act("s", Receive(1, 9))
            assert (length(play, "s1", "received"), length(play, "s1", "delivered")) == (0, 1)
            assert play.results("s1")[1:] == [b"on", b"e"]
            play.drop()


class TestPeriodicProcessing:
    def test_lines_44_to_46_the_primary_retransmits_until_it_is_acknowledged(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9))
            play.mark()
            with play.dropping(Rule((REQUEST,), limit=4)):
                play.act("c", Send(1, b"one"))
                play.run(30)
            assert play.results("s1")[1:] == [b"one"]
            sent_count = len(play.sent(REQUEST, "c1"))
            assert sent_count >= 3
            play.run(60)
            assert len(play.sent(REQUEST, "c1")) == sent_count, "acknowledged"
            play.drop()

    def test_line_45_no_a_silent_primary_retransmits_nothing_and_its_successor_does(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("c", Receive(1, 9))
            play.act("s", Send(1, b"one"))
            play.drop(Rule((REPLY,), to="c1"))
            play.mark()
            with play.dropping(Rule(by="s1", to="s2")):
                play.step("s1", SwitchRequested())
                play.run(play["s1"].config.timeouts.retransmit_interval_ns / MS + 1)
            assert (play.sent(REPLY), play.results("c1")[1:]) == ([], [])
            play.run(40)
            assert play.results("c1")[1:] == [b"one"]
            assert {datagram.source for datagram in play.sent(REPLY)} == {"s2"}
            assert "excluded" in play.left("s1")
            play.drop()

    def test_lines_47_48_and_69_to_71_first_acks_are_repeated_until_a_second_ack_comes(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.mark()
            play.act("c", Send(1, b"one"))
            with play.dropping(Rule((SECOND_ACK,))):
                play.run(30)
            assert len(play.sent(FIRST_ACK, "s1", "c")) >= 3
            assert play.sent(FIRST_ACK, "s2") == [], "only the primary"
            play.run(20)
            count = len(play.sent(FIRST_ACK))
            play.run(60)
            assert len(play.sent(FIRST_ACK)) == count
            play.drop()

    def test_line_47_no_a_reply_acknowledges(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.mark()
            play.act("c", Send(1, b"one"))
            play.run(40)
            assert len(play.sent(REPLY, "s1")) == 1
            assert play.sent(FIRST_ACK, "s1") == []
            play.drop()

    def test_lines_51_52_and_73_to_75_a_backup_asks_its_own_primary(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Receive(1, 9))
            play.mark()
            with play.dropping(Rule((REQUEST,), by="c1", to="s2", position=2)):
                play.act("c", Send(1, b"one"), Send(1, b"two"))
                play.deliver()
            play.run(5)
            nacks = play.sent(NACK, "s2", "s")
            assert nacks[0].body.positions == ((2, ()),)
            assert play.sent(NACK, "s1") == []
            (passed_on,) = play.sent(REQUEST, "s1", "s")
            assert passed_on.message.payload == b"one"
            play.run(60)
            assert play.results("s2")[1:] == [b"one", b"two"]

    def test_lines_54_and_55_keep_alives_when_there_is_nothing_to_say(self) -> None:
        with Playbook() as play:
            connected(play)
            play.run(100)
            play.mark()
            play.run(100)
            assert 4 <= len(play.sent(KEEP_ALIVE, "s1", "c")) <= 6
            assert 4 <= len(play.sent(KEEP_ALIVE, "c1", "s")) <= 6
            assert play.sent(KEEP_ALIVE, "s2") == []

    def test_lines_56_to_59_heartbeats(self) -> None:
        with Playbook() as play:
            connected(play)
            play.mark()
            play.run(50)
            assert 9 <= len(play.sent(HEARTBEAT, "s1", "s")) <= 12, "to all"
            assert 4 <= len(play.sent(HEARTBEAT, "s2", "s1")) <= 7, "to the primary, at half the pace (D-48)"
            assert play.sent(HEARTBEAT, "s2", "s") == []

    def test_lines_56_to_59_asking_one_for_a_commit_is_no_beat_nor_is_its_answer(self) -> None:
        with Playbook(output_commit_level=1) as play:
            connected(play, outside=True)
            play.run(100)
            play.mark()
            for number in range(20):  # a request in every heartbeat interval
                play.act("s", Receive(1, 9), Send(1, b"reply"))
                play.act("c", Send(1, b"one"), Receive(1, 9))
                play.run(4)
                assert len(play.results("c1")) == 1 + 2 * (number + 1)
            asked = [each for each in play.sent(KEEP_ALIVE, "s1", "s2") if each.message.order_bytes]
            assert len(asked) >= 20
            assert len(play.sent(HELD, "s2", "s1")) == len(asked) == len(play.sent(HELD, "s2", "c"))
            assert 80 / 5 - 1 <= len(play.sent(HEARTBEAT, "s1", "s")) <= 80 / 5 + 1, "all hear the others"
            assert 80 / 10 - 1 <= len(play.sent(HEARTBEAT, "s2", "s1")) <= 80 / 10 + 1
            play.mark()
            play.run(100)
            assert len(play.sent(HEARTBEAT, "s1")) >= 19, "without requests it beats by itself"


class TestAcknowledgments:
    def test_lines_63_to_68_a_backup_answers_for_what_it_has_generated(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.mark()
            play.act("c", Send(1, b"one"))
            with play.dropping(Rule((KEEP_ALIVE,), to="c2"), Rule((FIRST_ACK,), to="c2", limit=1)):
                play.run(25)
                assert len(play.sent(FIRST_ACK, "s1")) >= 2
                assert play.results("c2") == [1], "the order information was on what was lost"
                assert play.sent(SECOND_ACK) == []
            play.run(25)
            assert play.results("c2") == [1, 3]
            assert play.sent(SECOND_ACK, "c2", "s") != []
            assert play.sent(SECOND_ACK, "c1") == [], "not the primary while there is a backup"
            play.drop()

    def test_line_64_no_a_backup_that_has_not_generated_it_is_silent(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.mark()
            play.act("c", Send(1, b"one"))
            play.deliver(Rule((REQUEST,)))
            play.tick(3)
            (first_ack,) = play.sent(FIRST_ACK, "s1")
            play.deliver(Rule((FIRST_ACK,), to="c2"))
            assert play.sent(SECOND_ACK, "c2") == [], "it learned the order from this very message"
            play.step("c2", MessageReceived(first_ack.data))
            assert len(play.sent(SECOND_ACK, "c2", "s")) == 1
            play.drop()

    def test_line_67_the_only_member_answers_itself(self) -> None:
        with Playbook() as play:
            connected(play)
            play.mark()
            play.act("c", Send(1, b"one"))
            play.run(10)
            assert len(play.sent(SECOND_ACK, "c1", "s")) == 1
            play.drop()

    def test_lines_65_and_66_too_many_first_acks_slow_the_primary_down(self) -> None:
        with Playbook(limits=Limits(order_lag_bytes=400)) as play:
            connected(play, clients=2)
            play.mark()
            for _ in range(12):
                play.act("c", ReadClock(), Send(1, b"one"))
            backlog = Rule((FIRST_ACK, KEEP_ALIVE), to="c2")
            with play.dropping(backlog):
                play.until(lambda: len(play.sent(FIRST_ACK, "s1")) > MAX_ACK + 1, ms=300)
                play.run(20)
                before = len(play.results("c1"))
                assert before == 1 + 24
                play.act("c", Send(1, b"more"))
                play.run(5)
                assert len(play.results("c1")) == before, "held"
            play.run(100)
            assert len(play.results("c1")) == before + 1, "the backup has caught up"
            assert play.results("c2") == play.results("c1")
            play.drop()

    def test_line_72_a_second_ack_for_a_message_that_is_not_here(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.mark()
            with play.dropping(Rule((REQUEST, KEEP_ALIVE), to="s2")):
                play.act("c", Send(1, b"one"))
                play.until(lambda: bool(play.sent(SECOND_ACK, "c2")))
                play.deliver(Rule((SECOND_ACK,), to="s2"))
                assert length(play, "s2", "nack") == 1
                play.tick(4)
                nack = play.sent(NACK, "s2", "s")[0]
                assert nack.body.positions == ((2, ()),)
            play.drop()

    def test_line_74_no_a_nack_for_what_nobody_has_any_more(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Receive(1, 9))
            play.mark()
            play.act("c", Send(1, b"one"), Send(1, b"two"))
            play.drop(Rule((REQUEST,), to="s1", position=2))
            play.run(80)
            nack = play.sent(NACK, "s1", "c")[0]
            assert length(play, "c1", "sent") == 0
            play.mark()
            play.step("c1", MessageReceived(nack.data))
            assert play.sent(REQUEST) == []
            play.drop()

    def test_line_74_no_a_backup_asks_for_what_its_primary_misses_too(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 3), Receive(1, 3))
            play.mark()
            with play.dropping(Rule((REQUEST,), position=2), Rule((NACK,), by="s1")):
                play.act("c", Send(1, b"one"), Send(1, b"two"))
                play.run(8)
                assert play.sent(NACK, "s2", "s") != []
                assert play.sent(REQUEST, "s1") == [], "it has nothing to pass on"
            play.run(60)
            for name in ("s1", "s2"):
                assert play.results(name)[1:] == [b"one", b"two"]


class TestGarbageCollection:
    def test_lines_79_to_81_sent_messages_go_when_all_members_of_the_remote_group_have_them(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.act("s", Receive(1, 9))
            play.act("c", Send(1, b"one"))
            with play.dropping(Rule((HEARTBEAT,), by="s2", to="s1")):
                play.run(12)
                assert play.results("s1")[1:] == [b"one"]
                assert length(play, "c1", "sent") == 1, "s2 may still ask for it"
            play.run(60)
            assert length(play, "c1", "sent") == 0
            assert length(play, "c2", "sent") == 0

    def test_lines_82_to_84_delivered_messages_go_when_all_members_have_them(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9))
            play.act("c", Send(1, b"one"))
            with play.dropping(Rule((HEARTBEAT,), by="s2", to="s1")):
                play.run(12)
                assert length(play, "s1", "delivered") == 1
            play.run(60)
            assert length(play, "s1", "delivered") == 0
            assert length(play, "s2", "delivered") == 0

    def test_line_80_no_an_acknowledgment_alone_collects_nothing(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("c", Send(1, b"one"))
            play.run(60)
            assert length(play, "c1", "sent") == 1, "acknowledged by the primary, not delivered"
            play.act("s", Receive(1, 9))
            play.run(60)
            assert length(play, "c1", "sent") == 0

    def test_a_backup_asks_whether_a_connection_that_nobody_accepted_still_exists(self) -> None:
        with Playbook() as play:
            _embryo_at_the_backup_alone(play)
            play.run(400)
            assert length(play, "s2", "received") == 1, "it is kept alive"
            assert play.sent(KEEP_ALIVE, "s2", "c") == []
            play.until(lambda: play.results("c1") != [], ms=2000)
            (ended,) = play.recorded(ConnectionEnded, "c1")
            assert ended.reason == "refused"
            with play.dropping(Rule((KEEP_ALIVE,), by="c1", to="s2", limit=1)):
                play.run(200)
            assert length(play, "s2", "received") == 0
            play.mark()
            play.run(100)
            assert play.sent(KEEP_ALIVE, "s2", "c") == [], "it is not asked about any more"

    def test_a_backup_gives_up_what_nobody_accepted_with_a_group_that_is_gone(self) -> None:
        with Playbook(timeouts=Timeouts(idle_connection_bound_ns=200 * MS)) as play:
            _embryo_at_the_backup_alone(play)
            play.crash("c1")
            play.run(150)
            assert length(play, "s2", "received") == 1
            assert length(play, "s2", "held_order") > 0, "a new primary of theirs may ask for it"
            play.run(100)
            assert length(play, "s2", "received") == 0
            assert length(play, "s2", "held_order") == 0


def _embryo_at_the_backup_alone(play: Playbook) -> None:
    """A CONNECT has come to s2; s1 hears nothing of the client group, now and later."""
    play.join("s1", alone=True)
    play.join("s2")
    play.until(lambda: play["s2"].has_state)
    play.join("c1", alone=True)
    play.partition(("s1",), ("c1",))
    play.act("c", Connect(GROUP_IDS["s"]))
    play.until(lambda: length(play, "s2", "received") == 1)
