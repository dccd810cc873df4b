"""D-73: a primary that its kernel says is stopped is suspected without a timeout, and may go on later; one
that lives and does not get a processor is waited for longer."""

from __future__ import annotations

from llft.config import SEEN_ALIVE_TIMEOUTS
from llft.core.determinizer.operations import Receive, Send
from llft.core.events import PeerRuns, PeerStopped
from llft.identifiers import BirthId
from llft.instant import MS
from llft.journal.record import RoleChanged, Suspected
from tests.paper.playbook import Playbook, Rule, connected


def birth(play: Playbook, name: str) -> BirthId:
    return play[name].standing.birth_id


def suspicions(play: Playbook) -> list[tuple[str, str]]:
    found = play.recorded(Suspected)
    return [(play.name_of(each.suspect), each.reason) for each in found]


def test_the_backup_of_rank_2_takes_over_at_once_and_serves() -> None:
    with Playbook() as play:
        connected(play, servers=3)
        play.run(5)
        stopped = birth(play, "s1")
        play.crash("s1")
        play.step("s2", PeerStopped(stopped))
        assert play["s2"].role == "proposing", "no timeout was waited for"
        play.run(2)
        assert (play["s2"].role, play["s3"].role) == ("primary", "backup")
        assert suspicions(play) == [("s1", "stopped")]
        assert not play["s2"].detector.is_dead(stopped), "it may go on: that is no certificate"
        play.act("c", Send(1, b"one"))
        play.act("s", Receive(1, 9))
        play.run(5)
        assert play.results("s2")[-1] == b"one"


def test_a_sole_survivor_takes_over_and_tells_the_one_that_may_go_on() -> None:
    with Playbook() as play:
        connected(play, servers=2)
        play.run(5)
        play.step("s2", PeerStopped(birth(play, "s1")))
        play.run(5)
        assert play["s2"].role == "primary"
        assert suspicions(play) == [("s1", "stopped")]
        left = [record.reason for record in play.recorded(RoleChanged, "s1") if record.role == "left"]
        assert left, "who goes on finds itself superseded"


def test_it_is_the_turn_of_the_first_one_that_lives() -> None:
    with Playbook() as play:
        connected(play, servers=3)
        play.run(5)
        stopped, dead = birth(play, "s1"), birth(play, "s2")
        play.step("s3", PeerStopped(stopped))
        assert play["s3"].role == "backup", "the one of rank 2 sees it, too"
        play.crash("s1")
        play.crash("s2")
        play.certify(dead, "s3")
        assert play["s3"].role == "backup"
        play.step("s3", PeerStopped(stopped))
        assert play["s3"].role != "backup"
        play.run(2)
        assert play["s3"].role == "primary"
        assert suspicions(play) == [("s1", "stopped")]


def test_of_others_than_the_primary_nobody_is_suspected() -> None:
    with Playbook() as play:
        connected(play, servers=3)
        play.run(5)
        play.step("s1", PeerStopped(birth(play, "s2")))
        play.step("s2", PeerStopped(birth(play, "s3")))
        play.step("s3", PeerStopped(BirthId(9, 9, 9)))
        play.run(5)
        assert {name: play[name].role for name in ("s1", "s2", "s3")} == {
            "s1": "primary",
            "s2": "backup",
            "s3": "backup",
        }
        assert suspicions(play) == []


def silent_ms(play: Playbook, name: str) -> float:
    """How long this backup's primary may be silent before it is suspected."""
    core = play[name]
    return (core.timers.suspicion()[0] - core.detector.heard_ns[core.view.birth_id]) / MS


def test_who_sees_it_alive_is_still_sooner_than_the_next_in_rank_who_does_not() -> None:
    """On another host, say. Else that one would exclude a backup that may hold more."""
    with Playbook() as play:
        connected(play, servers=3)
        play.run(5)
        with play.dropping(Rule(by="s1")):
            play.run(silent_ms(play, "s2") / 2)
            play.step("s2", PeerRuns(birth(play, "s1")))
            assert silent_ms(play, "s2") < silent_ms(play, "s3")
        play.run(10)
        assert suspicions(play) == []


def test_who_lives_is_waited_for_longer_until_it_is_heard_again() -> None:
    with Playbook() as play:
        connected(play, servers=3)
        play.run(5)
        usual_ms = {name: silent_ms(play, name) for name in ("s2", "s3")}
        with play.dropping(Rule(by="s1")):
            play.run(usual_ms["s2"] * 3 / 4)
            for name in ("s2", "s3"):
                play.step(name, PeerRuns(birth(play, "s1")))
                assert silent_ms(play, name) == SEEN_ALIVE_TIMEOUTS * usual_ms[name]
            play.run(usual_ms["s2"])
            assert play["s2"].role == "backup", "it would have been suspected"
        play.run(10)
        assert {name: silent_ms(play, name) for name in ("s2", "s3")} == usual_ms
        assert suspicions(play) == []


def test_who_lives_and_stays_silent_is_suspected_all_the_same() -> None:
    with Playbook() as play:
        connected(play, servers=2)
        play.run(5)
        living = birth(play, "s1")
        play.crash("s1")
        play.run(10)
        play.step("s2", PeerRuns(living))
        left_ms = (play["s2"].timers.suspicion()[0] - play.now_ns) / MS
        play.run(left_ms - 1)
        assert play["s2"].role == "backup"
        play.run(2)
        assert play["s2"].role == "primary"
        assert suspicions(play) == [("s1", "timeout")]


def test_that_another_lives_says_nothing_of_the_primary() -> None:
    with Playbook() as play:
        connected(play, servers=3)
        play.run(5)
        before = {name: play[name].timers.suspicion()[0] for name in ("s2", "s3")}
        play.step("s2", PeerRuns(birth(play, "s3")))
        play.step("s3", PeerRuns(BirthId(9, 9, 9)))
        play.step("s1", PeerRuns(birth(play, "s2")))
        assert {name: play[name].timers.suspicion()[0] for name in ("s2", "s3")} == before
