"""Which backups are asked for the output commit, and when (D-10, D-48, D-75)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llft.core import events
from llft.core.determinizer.operations import Accept, Connect, Receive, Send
from llft.journal.record import Suspected
from llft.wire.messages import MessageFlag, MessageType
from tests.paper.playbook import GROUP_IDS, Datagram, Playbook, Rule, connected

HEARTBEAT, KEEP_ALIVE, REQUEST = MessageType.HEARTBEAT, MessageType.KEEP_ALIVE, MessageType.REQUEST
ASKING = MessageFlag.ANSWER_AT_ONCE | MessageFlag.COMMITS
PATIENCE_MS = 2.5
DOUBT_MS = 250


@contextmanager
def calm(servers: int = 3, level: int = 1, *, outside: bool = True) -> Iterator[Playbook]:
    """A server group that was asked nothing for a while, and a client: a gateway, which waits for commits."""
    with Playbook(output_commit_level=level) as play:
        connected(play, servers=servers, outside=outside)
        play.run(100)
        play.mark()
        yield play


def request(play: Playbook) -> None:
    play.act("s", Receive(1, 9), Send(1, b"reply"))
    play.act("c", Send(1, b"one"))


def questions(play: Playbook) -> list[Datagram]:
    sent = [*play.sent(HEARTBEAT, "s1"), *play.sent(KEEP_ALIVE, "s1")]
    asking = [each for each in sent if each.message.header.flags & ASKING]
    return sorted(asking, key=lambda each: each.time_ns)


def for_one(play: Playbook) -> list[bool]:
    """Of each question, whether it was sent to one backup alone."""
    return [each.to != "s" for each in questions(play)]


def committed(play: Playbook) -> bool:
    lane = play["s1"].messaging.lane
    return lane.order_committed == lane.orders.end


def test_one_of_two_backups_is_asked_and_answers() -> None:
    with calm() as play:
        request(play)
        play.run(2)
        assert for_one(play) == [True]
        assert committed(play)
        assert play["s3"].own_watermark() == play["s2"].own_watermark(), "the others are told, too"
        assert [answer.source for answer in play.sent(MessageType.HELD, to="s1")] == ["s2"]
        assert len(play.sent(HEARTBEAT, "s3", "s1")) <= 1, "by its own clock"


def test_for_who_does_not_wait_nobody_is_asked_and_nothing_is_told() -> None:
    with calm(outside=False) as play:
        request(play)
        play.run(4)
        assert [message.message.payload for message in play.sent(MessageType.REPLY, "s1")] == [b"reply"]
        assert questions(play) == []
        assert play.sent(KEEP_ALIVE, "s1") == []
        play.run(30)
        assert committed(play), "with the backups' own heartbeats"


@pytest.mark.parametrize(("servers", "level", "alone"), [(2, 1, True), (2, 2, True), (3, 2, False)])
def test_where_every_answer_counts_all_are_asked(servers: int, level: int, alone: bool) -> None:
    with calm(servers, level) as play:
        request(play)
        play.run(2)
        assert for_one(play) == [alone], "the only one is asked by a datagram of its own, which wakes it"
        assert committed(play)


def test_the_next_question_leaves_as_soon_as_the_last_is_answered() -> None:
    """What waits for the commit waits for no timer; and under load one answer commits several replies."""
    with calm() as play:
        request(play)
        play.run(0.2)
        assert committed(play)
        for _ in range(5):
            request(play)
            play.run(0.2)
            assert committed(play)
        assert for_one(play) == [True] * 6


def test_who_is_not_asked_is_told_now_and_then() -> None:
    with calm() as play:
        for _ in range(8):
            request(play)
            play.run(0.25)
        told = [each for each in play.sent(KEEP_ALIVE, "s1", "s") if each.message.order_bytes]
        assert len(questions(play)) == 8
        assert 1 <= len(told) <= 2, "every quarter of a heartbeat interval"
        assert play["s3"].intra.passed_over_ns > play["s3"].intra.asked_ns, "so it may rest for longer"
        play.run(30)
        assert play["s3"].own_watermark() == play["s1"].own_watermark(), "the rest by heartbeats and Nacks"


def test_a_backup_that_hears_only_multicasts_is_asked_by_one_when_its_answer_is_overdue() -> None:
    with calm(servers=2) as play:
        dropped = Rule((KEEP_ALIVE,), by="s1", to="s2", limit=1)
        with play.dropping(dropped):
            request(play)
            play.run(PATIENCE_MS + 0.5)
        assert for_one(play) == [True, False]
        assert committed(play)


def test_one_question_is_under_way_at_a_time() -> None:
    with calm() as play:
        for _ in range(3):
            request(play)
            play.deliver(Rule(to="s1", by="c"))
        assert len(questions(play)) == 1
        play.run(2)
        assert len(questions(play)) == 2, "the rest is asked for together"
        assert committed(play)


def asked(play: Playbook) -> list[str]:
    """Of each question, whom it was sent to: one backup, or all."""
    return [each.to for each in questions(play)]


def test_instead_of_whose_answer_is_overdue_the_next_one_is_asked_until_it_has_caught_up() -> None:
    with calm() as play:
        with play.dropping(Rule(to="s2")):
            request(play)
            play.run(PATIENCE_MS - 0.5)
            assert asked(play) == ["s2"]
            assert not committed(play)
            play.run(1)
            assert asked(play) == ["s2", "s"]
            assert committed(play), "by the other one"
            request(play)
            play.run(1)
            assert asked(play) == ["s2", "s", "s3"]
            assert committed(play), "nobody waits for the first again"
        play.run(30)
        assert play["s2"].own_watermark() == play["s1"].own_watermark()
        play.mark()
        request(play)
        play.run(2)
        assert asked(play) == ["s3"], "it was slow just now"
        play.run(DOUBT_MS)
        play.mark()
        request(play)
        play.run(2)
        assert asked(play) == ["s2"]


def test_one_of_them_is_in_doubt_at_a_time() -> None:
    """Where all are slow, it is one after the other that is asked, and a reply waits for each once."""
    with calm() as play:
        with play.dropping(Rule(to="s2")):
            request(play)
            play.run(PATIENCE_MS + 0.5)
        with play.dropping(Rule((KEEP_ALIVE,), by="s1", to="s3")):
            request(play)
            play.run(PATIENCE_MS + 0.5)
            assert committed(play)
            request(play)
            play.run(1)
        assert asked(play) == ["s2", "s", "s3", "s", "s2"]
        assert committed(play)


def test_an_overdue_question_to_all_does_not_end_the_doubt() -> None:
    with calm() as play:
        with play.dropping(Rule(to="s2"), Rule((HEARTBEAT,), by="s3")):
            request(play)
            play.run(3 * PATIENCE_MS)
        assert for_one(play) == [True, False, False]
        play.run(1)
        assert committed(play)


def test_nobody_waits_for_the_dead() -> None:
    with calm() as play:
        dead = play["s2"].standing.birth_id
        play.crash("s2")
        request(play)
        play.run(0.2)
        assert for_one(play) == [True]
        assert not committed(play)
        play.certify(dead, "s1")
        play.run(0.2)
        assert play.recorded(Suspected, "s1")
        assert committed(play)


def test_what_the_old_primary_could_not_commit_waits_for_no_timer_of_the_new_one() -> None:
    """The reply is with the gateway, which could not let it out, and has forgotten it (line 38)."""
    with calm() as play:
        dead = play["s1"].standing.birth_id
        with play.dropping(Rule((KEEP_ALIVE,), by="s1", to="s")):
            request(play)
            play.act("c", Receive(1, 9))
            play.run(0.5)
        assert play.sent(MessageType.REPLY, "s1")
        assert play.results("c1")[-1] != b"reply"
        play.crash("s1")
        play.certify(dead, "s2")
        play.certify(dead, "s3")
        play.run(0.5)
        assert play["s2"].role == "primary"
        assert play.results("c1")[-1] == b"reply", "no timer was waited for"
        assert play.recorded(Suspected, "s2")


def test_without_an_output_commit_a_connections_birth_is_asked_for_again() -> None:
    """D-24: its first message waits until a backup knows of it. What is sent again meanwhile (the first
    request, which was lost) is committed as it leaves, and tells nothing about backups."""
    with Playbook(output_commit_level=0) as play:
        connected(play, servers=1, clients=3)
        play.run(100)
        with play.dropping(Rule(to="c2"), Rule((REQUEST,), to="s1", limit=1)):
            play.act("c", Send(1, b"one"))
            play.run(3)
            play.mark()
            play.act("s", Accept())
            play.act("c", Connect(GROUP_IDS["s"]))
            play.run(PATIENCE_MS + 0.5)
        assert {each.message.header.conn_seq_num for each in play.sent(REQUEST, "c1")} == {1, 2}


def test_a_question_that_was_lost_is_repeated_though_nothing_else_happens() -> None:
    with calm(servers=2) as play:
        with play.dropping(Rule((KEEP_ALIVE,), by="s1", to="s2", limit=1)):
            request(play)
            play.run(PATIENCE_MS - 0.5)
        assert not committed(play)
        play.run(1)
        assert len(questions(play)) == 2
        assert committed(play)


def durable_groups(play: Playbook, *, c1: bool, c2: bool) -> None:
    """A durable server and a client, of whose members some may not be: they joined with other settings. A
    request is on its way."""
    for name, settings in (
        ("s1", {"alone": True, "durable": True}),
        ("s2", {"durable": True}),
        ("c1", {"alone": True, "durable": c1}),
        ("c2", {"durable": c2}),
    ):
        play.join(name, **settings)  # type: ignore[arg-type]
        play.run(100)
    play.step("s2", events.HistoryBegun())
    play.act("s", Accept())
    play.act("c", Connect(GROUP_IDS["s"]))
    play.run(200)
    assert play.results("c1") == [1]
    play.act("s", Receive(1, 9))
    play.act("c", Send(1, b"one"), Receive(1, 9))


def test_a_backup_that_does_not_wait_does_not_speak_for_its_group() -> None:
    """The server computes, so that its client's backup sends a SecondAck."""
    with Playbook(output_commit_level=1) as play:
        durable_groups(play, c1=True, c2=False)
        play.run(5)
        assert play.sent(MessageType.SECOND_ACK, "c2")
        play.act("s", Send(1, b"reply"))
        play.run(3)
        assert play.results("c1")[-1] == b"reply"


def test_who_waits_from_now_on_is_asked_for_what_was_sent_before() -> None:
    """The client's new primary waits, the old one did not, and died with the reply under way."""
    with Playbook(output_commit_level=1) as play:
        durable_groups(play, c1=False, c2=True)
        play.run(30)
        play.crash("c1")
        play.act("s", Send(1, b"reply"))
        play.run(300)
        assert play.results("c2")[-1] == b"reply"
        assert play.recorded(Suspected, "c2")
