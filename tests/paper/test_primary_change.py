"""The figure on the change of the primary: servers "s1", "s2", "s3", of precedences 1, 2, 3, and a client."""

from __future__ import annotations

import pytest

from llft.config import PartitionPolicy, Timeouts
from llft.core.determinizer.operations import RESET, ReadClock, Receive, Send
from llft.core.events import MessageReceived, SwitchRequested
from llft.journal.record import ConnectionEnded, Delivered, RoleChanged, Suspected, ViewInstalled
from llft.wire.messages import UNSETTLED, MessageType
from tests.paper.playbook import Playbook, Rule, connected

REQUEST, REPLY, NACK = MessageType.REQUEST, MessageType.REPLY, MessageType.NACK
KEEP_ALIVE, HEARTBEAT = MessageType.KEEP_ALIVE, MessageType.HEARTBEAT
PROPOSE, PROPOSE_ACK = MessageType.PROPOSE_PRIMARY, MessageType.PROPOSE_PRIMARY_ACK
PROPOSE_BACKUP = MessageType.PROPOSE_BACKUP
NEW_VIEW, NEW_VIEW_ACK = MessageType.NEW_PRIMARY_VIEW, MessageType.NEW_PRIMARY_VIEW_ACK

MAX_COUNT = 6


def roles(play: Playbook, group: str = "s") -> dict[str, str]:
    return {name: play[name].role for name in play.group(group)}


def suspects(play: Playbook, by: str) -> list[str]:
    return [play.name_of(record.suspect) for record in play.recorded(Suspected, by)]


class TestElection:
    def test_lines_1_to_7_the_backup_of_rank_2_appoints_itself(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            old_view = play["s1"].view
            play.crash("s1")
            play.tick(25)
            proposal = play.sent(PROPOSE, "s2", "s")[0]
            assert suspects(play, "s2") == ["s1"]
            assert proposal.body.old_view == old_view
            assert [play.name_of(member.birth_id) for member in proposal.body.membership] == ["s2", "s3"]
            view = proposal.message.header.source_view
            assert (view.precedence, view.primary_view_num) == (2, 2)
            assert play.sent(PROPOSE, "s3") == [], "a higher rank waits longer"
            assert roles(play) == {"s2": "proposing", "s3": "backup"}
            play.drop()

    def test_who_acknowledged_a_proposal_that_is_withdrawn_follows_the_old_primary_again(self) -> None:
        with Playbook(partition=PartitionPolicy.MAJORITY) as play:
            connected(play, servers=4)
            play.mark()
            old_view = play["s1"].view
            play.partition(("s1", "s3", "c1"), ("s2", "s4"))
            play.until(lambda: play["s4"].view != old_view)
            proposed = play["s4"].view
            play.until(lambda: play.members("s1") == ["s1", "s3", "s4"])
            assert (roles(play)["s2"], suspects(play, "s2")) == ("proposing", ["s1"]), (
                "two of four cannot win"
            )
            play.heal()
            play.until(lambda: "s2" not in play.group("s"))
            assert play.left("s2") == "removed by the majority"
            play.join("s2")
            assert play.sent(PROPOSE_BACKUP, "s2")[-1].body.withdrawn == proposed
            play.until(lambda: play["s4"].view == old_view)
            play.until(lambda: play["s2"].has_state)
            play.run(60)
            assert play.members("s1") == play.members("s2") == play.members("s4") == ["s1", "s3", "s4", "s2"]
            assert suspects(play, "s1") == ["s2"]

    def test_line_3_no_who_has_acknowledged_a_proposal_does_not_propose(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            play.crash("s1")
            with play.dropping(Rule((PROPOSE_ACK,), by="s3")):
                play.run(38)
            assert suspects(play, "s2") == ["s1"]
            assert suspects(play, "s3") == [], "its timer runs for s2 now"
            assert play.sent(PROPOSE, "s3") == []
            assert play["s3"].view == play["s2"].view
            play.run(60)
            assert roles(play) == {"s2": "primary", "s3": "backup"}
            play.drop()

    def test_line_4_members_of_lower_precedence_are_excluded(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            play.crash("s1")
            play.crash("s2")
            play.until(lambda: play["s3"].role == "primary")
            assert suspects(play, "s3") == ["s1"]
            assert play.members("s3") == ["s3"]
            assert (play["s3"].view.precedence, play["s3"].view.primary_view_num) == (3, 2)
            play.drop()

    def test_who_is_left_alone_by_certified_deaths_is_primary_in_one_step(self) -> None:
        """There is nobody to ask, and nobody to be told that it is excluded. Others hear its first beat."""
        with Playbook() as play:
            play.join("s1", alone=True)
            play.join("s2")
            play.until(lambda: play["s2"].has_state)
            play.run(60)
            dead = play["s1"].standing.birth_id
            play.crash("s1")
            play.mark()
            play.certify(dead, to="s2")
            assert roles(play) == {"s2": "primary"}
            assert play.sent(PROPOSE) == play.sent(HEARTBEAT) == []
            play.tick(0.001)
            assert play.sent(PROPOSE) == []
            assert len(play.sent(HEARTBEAT, "s2", "s")) == 1
            assert suspects(play, "s2") == ["s1"]
            play.drop()

    def test_who_is_left_alone_by_timeouts_tells_the_others(self) -> None:
        """They may live."""
        with Playbook() as play:
            connected(play, servers=2)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "recovering")
            assert len(play.sent(PROPOSE, "s2", "s")) == 1
            assert suspects(play, "s2") == ["s1"]
            play.drop()

    def test_lines_8_to_13_a_silent_member_is_excluded_after_max_count(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            play.crash("s1")
            with play.dropping(Rule((PROPOSE_ACK,), by="s3")):
                play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            proposals = [
                [play.name_of(one.birth_id) for one in sent.body.membership] for sent in play.sent(PROPOSE)
            ]
            assert proposals == [["s2", "s3"]] * (MAX_COUNT + 2) + [["s2"]]
            play.until(lambda: "s3" not in play.cores)
            assert "excluded" in play.left("s3"), "line 25"
            play.drop()

    def test_lines_14_to_16_recovery_starts_when_all_have_acknowledged(self) -> None:
        with Playbook() as play:
            connected(play, servers=4)
            play.mark()
            play.crash("s1")
            with play.dropping(Rule((PROPOSE_ACK,), by="s4", limit=2)):
                play.until(lambda: bool(play.sent(PROPOSE_ACK, "s3")))
                play.run(1)
                assert play["s2"].role == "proposing", "s4 is missing"
                assert play.sent(NEW_VIEW) == []
                play.run(30)
            assert roles(play) == {"s2": "primary", "s3": "backup", "s4": "backup"}
            assert suspects(play, "s2") == ["s1"]
            count = len(play.sent(PROPOSE))
            play.run(50)
            assert len(play.sent(PROPOSE)) == count, "the timer is cancelled"
            play.drop()

    def test_lines_17_to_24_an_included_backup_follows_and_its_rank_changes(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            assert play["s3"].standing.rank == 3
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            (ack,) = play.sent(PROPOSE_ACK, "s3", "s2")
            assert ack.body.view == play["s2"].view
            assert ack.body.needs_state is False
            assert play["s3"].view == play["s2"].view
            assert play["s3"].standing.rank == 2
            assert play.members("s3") == ["s2", "s3"]
            play.drop()

    def test_line_24_the_new_primary_is_watched(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            play.crash("s2")
            play.until(lambda: play["s3"].role == "primary", ms=100)
            assert suspects(play, "s2") == ["s1"]
            assert suspects(play, "s3") == ["s2"]
            assert (play["s3"].view.precedence, play["s3"].view.primary_view_num) == (3, 3)
            play.drop()

    def test_lines_18_to_20_of_two_proposers_the_higher_precedence_wins(self) -> None:
        with Playbook(timeouts=Timeouts(max_count=20)) as play:
            connected(play, servers=4)
            play.mark()
            play.crash("s1")
            with play.dropping(Rule((PROPOSE,), by="s2", to="s3")):
                play.until(lambda: bool(play.sent(PROPOSE, "s3")), ms=100)
            assert suspects(play, "s") == ["s1", "s1"]
            assert roles(play) == {"s2": "proposing", "s3": "proposing", "s4": "backup"}
            assert play["s4"].view == play["s2"].view, "it has acknowledged s2 so far"
            low, high = play.sent(PROPOSE, "s2")[0], play.sent(PROPOSE, "s3")[0]
            assert high.message.header.source_view.supersedes(low.message.header.source_view)
            play.mark()
            play.step("s3", MessageReceived(low.data))
            assert play.sent(PROPOSE_ACK, "s3") == [], "line 20: lower precedence is ignored"
            play.until(lambda: play["s3"].role == "primary")
            assert "excluded" in play.left("s2"), "line 25"
            assert play.members("s3") == play.members("s4") == ["s3", "s4"]
            play.drop()

    def test_line_18_no_a_proposal_for_a_view_that_is_over_is_ignored(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            old = play.sent(PROPOSE, "s2")[0]
            play.crash("s2")
            play.until(lambda: play["s3"].role == "primary")
            assert suspects(play, "s") == ["s1", "s2"]
            view = play["s3"].view
            play.step("s3", MessageReceived(old.data))
            assert (play["s3"].role, play["s3"].view) == ("primary", view)
            play.drop()

    def test_a_certificate_is_not_waited_for(self) -> None:
        """D-23."""
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            dead = play["s1"].standing.birth_id
            play.crash("s1")
            began_ns = play.now_ns
            for name in ("s2", "s3"):
                play.certify(dead, to=name)
            play.until(lambda: play["s2"].role == "primary", ms=3)
            assert play.now_ns - began_ns < 1_000_000
            assert [record.reason for record in play.recorded(Suspected)] == ["certificate"]
            play.drop()


class TestRecovery:
    def test_lines_26_to_29_the_remote_groups_are_told(self) -> None:
        with Playbook() as play:
            connected(play)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "recovering")
            assert suspects(play, "s2") == ["s1"]
            (told,) = play.sent(NEW_VIEW, "s2", "c")
            assert told.message.header.source_view == play["s2"].view
            assert told.message.header.view_start == UNSETTLED
            play.run(5)
            assert play["s2"].role == "primary"
            play.drop()

    def test_lines_30_to_32_missing_messages_and_order_information_are_retrieved(self) -> None:
        """s1 answered a request that s2 never saw; only the client knows of it."""
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Send(1, b"reply"), Receive(1, 9))
            play.act("c", Send(1, b"one"), Receive(1, 9))
            play.mark()
            play.drop(Rule((REQUEST,), to="s2"))
            play.deliver()
            assert len(play.sent(REPLY, "s1")) == 1
            play.deliver(Rule((REPLY,), to="c1"))
            assert play.results("c1")[1:] == [3, b"reply"]
            assert play.results("s2")[1:] == []
            play.crash("s1")
            play.drop()
            play.mark()
            play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            (answer,) = play.sent(NEW_VIEW_ACK, "c1", "s")
            assert answer.body.last_sent == 2
            assert answer.body.definite
            nack = play.sent(NACK, "s2", "c")[0]
            assert nack.body.positions == ((2, ()),)
            assert play.results("s2")[1:] == [b"one", 5], "it did what the old primary did"
            play.run(40)
            play.act("c", Send(1, b"two"), Receive(1, 9))
            play.act("s", Send(1, b"next"))
            play.run(40)
            assert play.results("s2")[1:] == [b"one", 5, b"two", 4]
            assert play.results("c1")[1:] == [3, b"reply", 3, b"next"], "the reply came once"

    def test_lines_33_to_35_numbers_restart_and_the_log_says_so(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.act("s", Receive(1, 9), Send(1, b"one"))
            play.act("c", Send(1, b"one"), Receive(1, 9))
            play.run(60)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            play.run(20)
            assert play["s3"].standing.rank == 2
            installed = [play.recorded(ViewInstalled, name)[-1] for name in ("s2", "s3")]
            assert installed[0].order_seq_num == installed[1].order_seq_num
            assert installed[0].membership == installed[1].membership
            play.act("s", Send(1, b"two"))
            reply = play.sent(REPLY, "s2")[0]
            assert reply.message.header.msg_seq_num == 1
            assert reply.position == 2
            play.run(40)
            play.act("c", Receive(1, 9))
            play.run(40)
            assert play.results("c1")[1:] == [3, b"one", b"two"]
            play.drop()

    def test_line_35_order_information_of_the_new_view_may_come_before_its_heartbeat(self) -> None:
        """Reflected by the client, it is of the new view: it does not lie beyond the synchrony point. A
        backup that has not heard yet where the view begins leaves it for later, and stays."""
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "recovering")
            assert suspects(play, "s2") == ["s1"]
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            with play.dropping(Rule((HEARTBEAT, KEEP_ALIVE), by="s2", to="s3")):
                play.act("c", Send(1, b"one"), Receive(1, 9), Send(1, b"two"))
                play.run(10)
                assert play.results("s3")[1:] == []
            play.run(30)
            assert play.results("s3")[1:] == [b"one", 5]
            assert roles(play) == {"s2": "primary", "s3": "backup"}

    def test_line_31_what_is_reflected_of_a_view_whose_start_is_not_known_waits_for_the_answer(self) -> None:
        """s2 was primary so shortly that s3 never heard where its view began. The answer of the client
        says it, the client's next Request does not: taken from there, it would seem to be too much."""
        with Playbook() as play:
            connected(play, servers=3)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "recovering")
            play.act("s", Receive(1, 9), ReadClock(), Send(1, b"reply"), Receive(1, 9))
            play.act("c", Send(1, b"one"), Receive(1, 9), Send(1, b"two"))
            play.until(lambda: len(play.results("c1")) == 4)
            assert play["s3"].standing.view_start == UNSETTLED
            did, dead = list(play.results("s2")), play["s2"].standing.birth_id
            play.crash("s2")
            play.certify(dead, to="s3")
            assert roles(play) == {"s3": "recovering"}
            assert play.sent(REQUEST, "c1")[-1].message.reflected_bytes
            assert play.deliver(Rule((REQUEST,), to="s3"))
            assert len(play.results("s3")) == 1, "it waits for the answer"
            play.until(lambda: play["s3"].role == "primary")
            play.run(40)
            assert play.results("s3") == [*did, b"two"], "the clock reading, too"
            assert suspects(play, "s") == ["s1", "s2"]
            play.drop()

    def test_line_31_what_another_member_knows_is_retrieved(self) -> None:
        """D-28: s3 has order information that s2 has not, and no remote group holds it any more."""
        with Playbook() as play:
            connected(play, servers=3)
            play.act("s", Receive(1, 9), Receive(1, 9))
            play.act("c", Send(1, b"one"))
            with play.dropping(Rule((KEEP_ALIVE, HEARTBEAT), to="s2")):
                play.run(12)
            assert play.results("s3")[1:] == [b"one"]
            assert play.results("s2")[1:] == []
            play.crash("s1")
            play.crash("c1")
            play.in_flight.clear()
            play.mark()
            play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            assert play.sent(NACK, "s2", "s")[0].body.order_end > 0
            assert play.results("s2")[1:] == [b"one"]
            assert play.members("s2") == ["s2", "s3"]
            play.drop()

    def test_a_planned_switch_loses_nothing_and_suspects_nobody(self) -> None:
        with Playbook() as play:
            connected(play, servers=3)
            play.act("s", Receive(1, 9), Receive(1, 9))
            play.act("c", Send(1, b"one"))
            play.mark()
            play.step("s1", SwitchRequested())
            play.until(lambda: play["s2"].role == "primary", ms=50)
            assert "excluded" in play.left("s1")
            assert next(one.reason for one in play.recorded(RoleChanged, "s2")) == "planned switch"
            play.run(40)
            assert play.results("s2")[1:] == [b"one"]
            assert play.members("s2") == ["s2", "s3"]
            play.drop()


@pytest.mark.parametrize(
    ("crashed", "replicas"),
    [(["s1"], 2), (["c1"], 2), (["s1", "c1"], 2), (["s1"], 3), (["s1", "s2"], 3), (["s1", "c1"], 3)],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_a_crash_at_every_moment_of_an_exchange_loses_nothing(crashed: list[str], replicas: int) -> None:
    """No datagram is lost here. So nobody but the crashed may go, no connection be reset, no message
    be read twice or never, and nobody has to wait for the bound of a recovery (D-07)."""
    for moment in range(40):
        with Playbook() as play:
            connected(play, clients=replicas, servers=replicas)
            exchange(play, first=1, count=2)
            for _ in range(moment):
                play.advance()
            for name in crashed:
                play.crash(name)
            play.mark()
            play.run(100)
            left = [one.stamp.birth_id for one in play.recorded(RoleChanged) if one.role == "left"]
            assert [play.name_of(birth_id) for birth_id in left] == [], f"left, moment {moment}"
            assert play.recorded(ConnectionEnded) == [], f"moment {moment}"
            assert play.recorded(Suspected) != []
            assert list(roles(play).values()).count("primary") == 1, f"moment {moment}"
            exchange(play, first=3, count=1)
            play.run(60)
            check_exchange(play, count=3)


def exchange(play: Playbook, *, first: int, count: int) -> None:
    for number in range(first, first + count):
        play.act("s", Receive(1, 9), ReadClock(), Send(1, b"reply %d" % number))
        play.act("c", Send(1, b"request"), Receive(1, 9))


def check_exchange(play: Playbook, *, count: int) -> None:
    for name in play.group("c"):
        expected = [item for number in range(1, count + 1) for item in (7, b"reply %d" % number)]
        assert play.results(name)[1:] == expected
    servers = play.group("s")
    assert play.results(servers[0])[1::3] == [b"request"] * count
    for name in servers:
        assert play.results(name) == play.results(servers[0]), "clock readings, too"


class TestRemoteGroup:
    def test_lines_36_to_41_the_remote_primary_answers_and_expects_the_new_view(self) -> None:
        with Playbook() as play:
            connected(play, clients=2)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.act("c", Send(1, b"one"), Receive(1, 9))
            play.run(60)
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            answer = play.sent(NEW_VIEW_ACK, "c1", "s")[0]
            assert (answer.body.received_up_to, answer.body.last_sent) == (1, 2)
            assert answer.body.view == play["s2"].view
            assert play.sent(NEW_VIEW_ACK, "c2") == [], "only the primary answers"
            play.act("s", Send(1, b"next"))
            play.act("c", Receive(1, 9))
            play.run(60)
            for name in ("c1", "c2"):
                assert play.results(name)[1:] == [3, b"reply", b"next"]
            play.drop()

    def test_line_38_what_was_not_delivered_is_flushed_and_sent_again(self) -> None:
        """D-26, as the text of the paper has it."""
        with Playbook() as play:
            connected(play, clients=2)
            play.act("s", Receive(1, 9), Send(1, b"reply"))
            play.act("c", Send(1, b"one"))
            play.run(60)
            assert play["c1"].statistics()["received_list"] == 1
            play.mark()
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            assert play.sent(NEW_VIEW_ACK, "c1")[0].body.received_up_to == 0
            play.run(40)
            assert [one.message.payload for one in play.sent(REPLY, "s2")][:1] == [b"reply"]
            play.act("c", Receive(1, 99))
            play.run(40)
            for name in ("c1", "c2"):
                assert play.results(name)[1:] == [3, b"reply"], "once"
                assert [record.size for record in play.recorded(Delivered, name)] == [5]
            play.drop()

    def test_line_39_messages_of_the_old_view_are_not_accepted_any_more(self) -> None:
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Send(1, b"old"))
            play.mark()
            with play.dropping(Rule((REPLY,), by="s1")):
                play.act("c", Send(1, b"one"), Receive(1, 9))
                play.run(12)
            old = play.sent(REPLY, "s1")[0]
            play.mark()
            play.crash("s1")
            with play.dropping(Rule((REPLY,), by="s2")):
                play.until(lambda: play["s2"].role == "primary")
                play.run(5)
                play.step("c1", MessageReceived(old.data))
                assert play.results("c1")[1:] == [3], "of a superseded primary"
            assert suspects(play, "s2") == ["s1"]
            play.run(40)
            assert play.results("c1")[1:] == [3, b"old"], "from the new one"
            play.drop()

    def test_a_remote_group_that_knows_more_is_reset_at_both_ends(self) -> None:
        """D-07: the client cannot be asked in time, and has a reply that s2 cannot reproduce."""
        with Playbook() as play:
            connected(play)
            play.act("s", Receive(1, 9), Send(1, b"reply"), Receive(1, 9))
            play.act("c", Send(1, b"one"), Receive(1, 9), Receive(1, 9))
            play.drop(Rule((REQUEST,), to="s2"))
            play.deliver()
            play.deliver(Rule((REPLY,), to="c1"))
            assert play.results("c1")[1:] == [3, b"reply"]
            play.crash("s1")
            play.drop()
            play.mark()
            play.partition(("c1",), ("s2",))
            play.until(lambda: play["s2"].role == "primary")
            assert suspects(play, "s2") == ["s1"]
            assert play.results("s2")[1:] == []
            play.heal()
            play.run(100)
            assert play.results("c1")[1:] == [3, b"reply", RESET]
            assert play.results("s2")[1:] == [RESET, RESET, RESET]
            ends = play.recorded(ConnectionEnded)
            assert "knows more" in ends[0].reason
            assert {end.how for end in ends} == {"reset"}
            play.drop()
