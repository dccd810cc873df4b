"""D-73: a primary that its kernel says is stopped is suspected without a timeout, and may go on later."""

from __future__ import annotations

from llft.core.determinizer.operations import Receive, Send
from llft.core.events import PeerStopped
from llft.identifiers import BirthId
from llft.journal.record import RoleChanged, Suspected
from tests.paper.playbook import Playbook, connected


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
