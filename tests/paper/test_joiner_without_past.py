"""A joiner that has the protocols' state and not its program's past (D-70) is no backup to count on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llft.config import Replication
from llft.core.determinizer.operations import ReadClock
from llft.core.events import StateStored, SwitchRequested
from llft.journal.record import Suspected
from llft.wire.messages import MessageType
from tests.paper.playbook import Playbook, Rule, connected

GONE = "primary lost before the program's past came"
BOTH = pytest.mark.parametrize("replication", list(Replication), ids=lambda kind: kind.value)


def joined_without_past(play: Playbook, name: str) -> None:
    """It is a member, which follows; its shell is still fetching."""
    stores, play.stores_at_once = play.stores_at_once, False
    play.join(name)
    play.until(lambda: play[name].has_state)
    play.run(20)
    play.stores_at_once = stores
    assert not play[name].standing.has_past


def suspects(play: Playbook) -> set[str]:
    return {play.name_of(one.suspect) for one in play.recorded(Suspected)}


@BOTH
def test_it_does_not_take_over_when_nobody_else_is_left(replication: Replication) -> None:
    with Playbook(replication=replication) as play:
        connected(play, servers=1)
        joined_without_past(play, "s2")
        play.mark()
        play.crash("s1")
        play.run(200)
        assert play.left("s2") == GONE
        assert play.group("s") == []
        assert suspects(play) == {"s1"}
        play.drop()


@BOTH
def test_it_makes_way_for_the_next_that_can(replication: Replication) -> None:
    with Playbook(replication=replication) as play:
        connected(play, servers=1)
        joined_without_past(play, "s2")
        play.join("s3")
        play.until(lambda: play["s3"].standing.has_past)
        play.run(20)
        play.mark()
        play.crash("s1")
        play.until(lambda: play["s3"].role == "primary")
        assert play.left("s2") == GONE
        assert play.members("s3") == ["s3"]
        assert suspects(play) == {"s1"}
        play.drop()


@BOTH
def test_it_takes_over_when_its_past_is_there(replication: Replication) -> None:
    with Playbook(replication=replication) as play:
        connected(play, servers=1)
        joined_without_past(play, "s2")
        play.step("s2", StateStored(held=True))
        play.run(20)
        play.mark()
        play.crash("s1")
        play.until(lambda: play["s2"].role == "primary")
        assert suspects(play) == {"s1"}
        play.drop()


def test_it_is_not_switched_to() -> None:
    with Playbook() as play:
        connected(play, servers=1)
        joined_without_past(play, "s2")
        play.mark()
        play.step("s1", SwitchRequested())
        play.run(3000)
        assert play.sent(MessageType.PROPOSE_PRIMARY) == []
        assert play["s1"].role == "primary"
        assert not play["s1"].reticence.silent, "it goes on when nobody took over"
        play.step("s2", StateStored(held=True))
        play.run(20)
        play.step("s1", SwitchRequested())
        play.until(lambda: play["s2"].role == "primary")
        assert play.left("s1") == "excluded by a new primary"
        play.drop()


def committed(play: Playbook, name: str) -> bool:
    """Whether all that this primary has ordered is held by as many backups as are asked for."""
    play[name].update_watermarks()
    lane = play[name].messaging.lane
    return lane.order_committed >= lane.orders.end


@contextmanager
def ordered_while_deaf_to_s2(servers: int, joiner: str) -> Iterator[Playbook]:
    """A joiner without past, and a primary that has ordered something and hears nothing of s2."""
    with Playbook(output_commit_level=1) as play:
        connected(play, servers=servers)
        joined_without_past(play, joiner)
        with play.dropping(Rule(by="s2", to="s1")):
            play.act("s", ReadClock())
            play.run(12)
            yield play
        play.run(20)
        play.drop()


def test_nothing_is_committed_by_its_holding_it() -> None:
    with ordered_while_deaf_to_s2(servers=2, joiner="s3") as play:
        watermarks = play["s1"].messaging.watermarks
        third = play["s3"].standing.birth_id
        assert watermarks.of_member[third] == play["s1"].messaging.lane.orders.end, "it has everything"
        assert not committed(play, "s1")
        play.step("s3", StateStored(held=True))
        play.run(1)
        assert committed(play, "s1")


def test_where_it_is_the_only_backup_output_does_not_wait_for_it() -> None:
    """As if it were not there (D-10: level 1 where a backup is alive, else 0)."""
    with ordered_while_deaf_to_s2(servers=1, joiner="s2") as play:
        assert committed(play, "s1")


def test_a_new_primary_hears_who_could_not_take_over() -> None:
    with Playbook(output_commit_level=1) as play:
        connected(play, servers=3)
        joined_without_past(play, "s4")
        play.mark()
        play.crash("s1")
        play.until(lambda: play["s2"].role == "primary")
        play.run(60)
        assert suspects(play) == {"s1"}
        fourth, watermarks = play["s4"].standing.birth_id, play["s2"].messaging.watermarks
        assert [each for each in watermarks.of_member if not watermarks.counts(each)] == [fourth]
        play.step("s4", StateStored(held=True))
        play.run(5)
        assert watermarks.counts(fourth)
        play.drop()
