"""The figure on the addition and removal of a backup."""

from __future__ import annotations

from llft.config import Limits, Replication, Timeouts
from llft.core.determinizer.operations import ReadClock, Receive, Send
from llft.core.events import LeaveRequested, MessageReceived, StateStored
from llft.instant import SECOND
from llft.journal.record import StateApplied, StateTaken, Suspected
from llft.wire.messages import MessageType
from tests.paper.playbook import Playbook, Rule, connected

REQUEST = MessageType.REQUEST
PROPOSE, ACCEPT, REMOVE = MessageType.PROPOSE_BACKUP, MessageType.ACCEPT_BACKUP, MessageType.REMOVE_BACKUP
ACK, STATE, STATE_ACK = MessageType.MEMBERSHIP_ACK, MessageType.STATE, MessageType.STATE_ACK

MAX_COUNT = 6
JOIN_MAX_COUNT = 12


def group_of(play: Playbook, count: int) -> Playbook:
    """A group "s" of so many settled members."""
    for number in range(1, count + 1):
        name = f"s{number}"
        play.join(name, alone=number == 1)
        play.run(10)
        assert play[name].has_state
    return play


class TestJoining:
    def test_lines_1_to_9_a_process_proposes_itself(self) -> None:
        with Playbook() as play:
            group_of(play, 1)
            play.mark()
            play.join("s2")
            (proposal,) = play.sent(PROPOSE, "s2", "s")
            assert proposal.body.sender == play["s2"].standing.birth_id
            assert play["s2"].role == "joining"
            play.drop()

    def test_lines_10_to_14_it_asks_again_and_then_is_the_first_member(self) -> None:
        with Playbook() as play:
            play.join("s1")
            play.act("s", ReadClock())
            play.tick(40 * (JOIN_MAX_COUNT + 1) - 1)
            assert play["s1"].role == "joining"
            play.tick(41)
            assert len(play.sent(PROPOSE, "s1")) == JOIN_MAX_COUNT + 2
            assert play["s1"].role == "primary"
            assert (play["s1"].view.precedence, play["s1"].view.primary_view_num) == (1, 1)
            assert play.members("s1") == ["s1"]
            assert len(play.results("s1")) == 1, "its application runs"

    def test_line_11_of_two_that_start_together_the_younger_waits(self) -> None:
        """D-27."""
        with Playbook() as play:
            play.join("s1")
            play.tick(1)
            play.join("s2")
            play.until(lambda: play["s2"].has_state, ms=40 * (JOIN_MAX_COUNT + 4))
            assert play["s1"].role == "primary"
            assert play["s2"].role == "backup"
            play.drop()

    def test_lines_15_to_19_the_accepted_one_acknowledges_and_waits_for_its_state(self) -> None:
        with Playbook() as play:
            group_of(play, 1)
            play.mark()
            play.join("s2")
            play.deliver()
            play.deliver(Rule((ACCEPT,)))
            joiner = play["s2"]
            assert (joiner.role, joiner.has_state) == ("backup", False)
            assert (joiner.standing.precedence, joiner.standing.rank) == (2, 2)
            (ack,) = play.sent(ACK, "s2", "s1")
            assert ack.body.needs_state
            play.run(100)
            assert len(play.sent(PROPOSE, "s2")) == 1, "the timer is cancelled"
            assert play["s2"].has_state
            play.drop()

    def test_line_15_no_an_acceptance_of_another(self) -> None:
        with Playbook() as play:
            group_of(play, 1)
            play.mark()
            play.join("s2")
            play.deliver(Rule((PROPOSE,)))
            (acceptance,) = play.sent(ACCEPT, "s1")
            play.join("s3")
            play.step("s3", MessageReceived(acceptance.data))
            assert play["s3"].role == "joining"
            play.run(20)
            assert play.members("s3") == ["s1", "s2", "s3"]

    def test_lines_20_and_21_the_state_and_what_came_since(self) -> None:
        with Playbook() as play:
            connected(play, servers=1)
            play.act("s", Receive(1, 9), ReadClock())
            play.act("c", Send(1, b"one"))
            play.run(30)
            play.join("s2")
            with play.dropping(Rule((STATE,), to="s2")):
                play.run(5)
                play.act("s", Receive(1, 9), Send(1, b"reply"))
                play.act("c", Send(1, b"two"))
                play.run(5)
                assert not play["s2"].has_state
                assert play.results("s1")[1:] == [b"one", play.results("s1")[2], b"two", 5]
            play.mark()
            with play.dropping(Rule((REQUEST,), to="s2")):  # so what s2 performs, it had in its log
                play.until(lambda: play["s2"].has_state)
                play.until(lambda: play.results("s2") == play.results("s1"))
                play.act("c", Send(1, b"lost"))
                play.deliver()
            (applied,) = play.recorded(StateApplied, "s2")
            assert applied.order_seq_num < play["s2"].executed
            play.drop()


class TestCommitting:
    def test_lines_22_to_26_and_30_precedence_in_the_order_of_joining(self) -> None:
        with Playbook() as play:
            group_of(play, 3)
            assert [member.precedence for member in play["s1"].membership] == [1, 2, 3]
            play.mark()
            play.crash("s2")
            play.run(100)
            assert [play.name_of(one.suspect) for one in play.recorded(Suspected)] == ["s2"]
            play.join("s2")
            play.run(20)
            assert play.members("s1") == play.members("s3") == ["s1", "s3", "s2"]
            assert [member.precedence for member in play["s1"].membership] == [1, 3, 4], "never again 2"
            acceptance = play.sent(ACCEPT, "s1", "s")[0]
            assert len(acceptance.body.old_membership) == 2
            assert len(acceptance.body.membership) == 3

    def test_line_22_no_a_duplicate_changes_nothing(self) -> None:
        with Playbook() as play:
            group_of(play, 1)
            play.mark()
            play.join("s2")
            (proposal,) = play.sent(PROPOSE, "s2")
            play.deliver()
            play.step("s1", MessageReceived(proposal.data))
            play.run(20)
            play.step("s1", MessageReceived(proposal.data))
            play.run(20)
            assert [member.precedence for member in play["s1"].membership] == [1, 2]
            assert len(play.sent(ACCEPT, "s1", "s")) == 1
            assert play["s2"].role == "backup"

    def test_lines_30_to_32_and_37_38_a_change_is_repeated_until_all_have_acknowledged(self) -> None:
        with Playbook() as play:
            group_of(play, 2)
            play.mark()
            play.join("s3")
            with play.dropping(Rule((ACK,), by="s2", limit=2)):
                play.run(6)
                assert len(play.sent(ACCEPT, "s1", "s")) == 2
                assert play.sent(STATE) == [], "line 39, no: s2 has not acknowledged"
                play.run(20)
            assert len(play.sent(ACCEPT, "s1", "s")) == 3
            assert play.sent(STATE, "s1", "s3") != []
            assert play.members("s2") == play.members("s3") == ["s1", "s2", "s3"]

    def test_lines_33_to_36_the_silent_are_excluded(self) -> None:
        with Playbook() as play:
            group_of(play, 2)
            play.mark()
            play.join("s3")
            with play.dropping(Rule((ACK,), by="s2")):
                play.until(lambda: play["s3"].has_state)
            sent = [
                [play.name_of(one.birth_id) for one in message.body.membership]
                for message in play.sent(ACCEPT, "s1", "s")
            ]
            assert sent == [["s1", "s2", "s3"]] * (MAX_COUNT + 2) + [["s1", "s3"]]
            assert "removed" in play.left("s2"), "line 46"
            assert play["s3"].standing.rank == 2
            play.drop()

    def test_lines_39_to_42_the_state_goes_to_who_needs_it_and_is_repeated(self) -> None:
        with Playbook() as play:
            group_of(play, 2)
            play.act("s", ReadClock())
            play.run(20)
            play.mark()
            play.join("s3")
            with play.dropping(Rule((STATE,), to="s3", limit=1)):
                play.run(60)
            assert len(play.recorded(StateTaken, "s1")) == 1
            assert play.sent(STATE, "s1", "s2") == []
            assert len(play.sent(STATE, "s1", "s3")) >= 2
            assert len(play.sent(STATE_ACK, "s3", "s1")) >= 1
            assert play.results("s3") == play.results("s1")

    def test_lines_43_to_45_an_existing_backup_updates_its_rank(self) -> None:
        with Playbook() as play:
            group_of(play, 3)
            assert play["s3"].standing.rank == 3
            play.mark()
            play.crash("s2")
            play.until(lambda: bool(play.sent(ACK, "s3", "s1")))
            assert [play.name_of(one.suspect) for one in play.recorded(Suspected, "s1")] == ["s2"]
            (removal,) = play.sent(REMOVE, "s1", "s")
            assert [play.name_of(member.birth_id) for member in removal.body.membership] == ["s1", "s3"]
            assert play.members("s3") == ["s1", "s3"]
            assert play["s3"].standing.rank == 2
            assert play["s3"].view.primary_view_num == 1, "no change of the view"
            play.run(20)
            assert len(play.sent(REMOVE, "s1", "s")) == 1


class TestRemoving:
    def test_lines_27_to_29_and_46_a_backup_that_is_not_heard(self) -> None:
        with Playbook() as play:
            group_of(play, 3)
            play.mark()
            play.partition(("s1", "s3"), ("s2",))
            play.until(lambda: play.members("s1") == ["s1", "s3"])
            suspicions = play.recorded(Suspected)
            assert "s2" in [play.name_of(one.suspect) for one in suspicions]
            play.drop()

    def test_line_46_the_removed_one_learns_of_it_and_rejoins(self) -> None:
        with Playbook() as play:
            group_of(play, 2)
            play.mark()
            with play.dropping(Rule((MessageType.HEARTBEAT,), by="s2")):
                play.until(lambda: "s2" not in play.cores)
            assert [play.name_of(one.suspect) for one in play.recorded(Suspected, "s1")] == ["s2"]
            assert "removed" in play.left("s2")
            play.join("s2")
            play.run(20)
            assert play.members("s1") == play.members("s2") == ["s1", "s2"]
            assert play["s2"].standing.precedence == 3, "a new process"

    def test_a_deliberate_leave_is_no_fault(self) -> None:
        with Playbook() as play:
            group_of(play, 3)
            play.mark()
            play.step("s2", LeaveRequested())
            play.until(lambda: "s2" not in play.cores)
            assert "removed" in play.left("s2")
            assert play.recorded(Suspected) == []
            play.run(20)
            assert play.members("s3") == ["s1", "s3"]


class TestSemiPassive:
    def test_lines_20_21_and_41_42_backups_get_the_state_again_and_again(self) -> None:
        with Playbook(replication=Replication.SEMI_PASSIVE) as play:
            connected(play)
            play.act("s", Receive(1, 9), ReadClock())
            play.act("c", Send(1, b"one"))
            play.mark()
            play.run(150)
            taken, applied = play.recorded(StateTaken, "s1"), play.recorded(StateApplied, "s2")
            assert taken[-1][1:] == applied[-1][1:]
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            assert [play.name_of(one.suspect) for one in play.recorded(Suspected)] == ["s1"]
            assert play.results("s2")[1] == b"one"
            play.drop()

    def test_an_update_that_the_shell_does_not_hold_is_not_taken(self) -> None:
        """Else what the state before it needs would be gone, should the primary fail now."""
        with Playbook(replication=Replication.SEMI_PASSIVE) as play:
            connected(play)
            play.run(120)
            play.stores_at_once = False
            play.act("s", Receive(1, 9), ReadClock())
            play.act("c", Send(1, b"one"))
            play.mark()
            play.run(150)
            assert play.recorded(StateTaken, "s1") != []
            assert play.recorded(StateApplied, "s2") == []
            assert play["s2"].semi_passive.logged
            play.step("s2", StateStored(held=False))
            assert play.recorded(StateApplied, "s2") == []
            play.run(40)  # it is sent again
            play.step("s2", StateStored(held=True))
            assert play.recorded(StateApplied, "s2")[-1][1:] == play.recorded(StateTaken, "s1")[-1][1:]
            assert not play["s2"].semi_passive.logged
            play.crash("s1")
            play.until(lambda: play["s2"].role == "primary")
            assert [play.name_of(one.suspect) for one in play.recorded(Suspected)] == ["s1"]
            assert play.results("s2")[1] == b"one"
            play.drop()

    def test_an_update_does_not_wait_for_its_time_when_much_was_done(self) -> None:
        limits, timeouts = Limits(state_update_operations=4), Timeouts(state_update_interval_ns=60 * SECOND)
        with Playbook(replication=Replication.SEMI_PASSIVE, limits=limits, timeouts=timeouts) as play:
            connected(play)
            play.run(50)
            play.mark()
            play.act("s", ReadClock(), ReadClock())
            play.run(50)
            assert play.recorded(StateTaken, "s1") == []
            play.act("s", ReadClock(), ReadClock(), ReadClock())
            play.run(50)
            assert len(play.recorded(StateTaken, "s1")) == 1
            assert play.recorded(StateApplied, "s2")[-1][1:] == play.recorded(StateTaken, "s1")[-1][1:]
            play.drop()
