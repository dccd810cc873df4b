"""A durable group's output waits until a backup has performed what led to it, and has it on disk (D-71)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llft.core import events
from llft.core.determinizer.operations import Receive, Send
from llft.journal.record import Suspected
from tests.paper.playbook import Playbook, connected

PROMOTION_MS = 200
LAG_MS = 400


@contextmanager
def durable(*with_history: str, servers: int = 2) -> Iterator[Playbook]:
    with Playbook(output_commit_level=1, durable=True) as play:
        connected(play, servers=servers)
        for name in with_history:
            play.step(name, events.HistoryBegun())
        play.run(100)
        play.mark()
        yield play


def request(play: Playbook) -> None:
    play.act("s", Receive(1, 9), Send(1, b"reply"))
    play.act("c", Send(1, b"one"), Receive(1, 9))


def answered(play: Playbook) -> bool:
    """All that was asked."""
    return play.results("c1")[-1] == b"reply" and len(play.results("c1")) == len(play.scripts["c"])


def hold(play: Playbook, name: str) -> None:
    """Its program computes, and makes no call."""
    play.applications[name].running = False


def release(play: Playbook, name: str) -> None:
    play.applications[name].running = True
    play.act("s")


def test_a_reply_waits_until_a_backup_has_performed_what_led_to_it() -> None:
    with durable("s2") as play:
        request(play)
        play.run(2)
        assert answered(play), "in the time of a question"
        hold(play, "s2")
        request(play)
        play.run(20)
        assert play["s2"].own_watermark() == play["s1"].own_watermark(), "it has received everything"
        assert not answered(play)
        release(play, "s2")
        play.run(1)
        assert answered(play)


def test_where_no_backup_has_a_history_it_waits_for_what_they_hold() -> None:
    with durable() as play:
        hold(play, "s2")
        request(play)
        play.run(2)
        assert answered(play)


def test_one_that_has_performed_is_enough() -> None:
    with durable("s2", "s3", servers=3) as play:
        hold(play, "s2")
        request(play)
        play.run(20)
        assert answered(play), "the next primary is slow, and the other one was asked"


def test_a_backup_that_dies_is_waited_for_no_longer() -> None:
    with durable("s2") as play:
        hold(play, "s2")
        request(play)
        play.run(2)
        dead = play["s2"].standing.birth_id
        play.crash("s2")
        play.certify(dead, "s1")
        play.run(2)
        assert [each.suspect for each in play.recorded(Suspected)] == [dead]
        assert answered(play)


def test_a_program_that_hangs_at_a_backup_does_not_keep_clients_waiting() -> None:
    with durable("s2") as play:
        hold(play, "s2")
        request(play)
        play.run(LAG_MS / 2)
        assert not answered(play)
        play.run(LAG_MS)
        assert answered(play)
        request(play)
        play.run(2)
        assert answered(play), "it is not waited for again"
        release(play, "s2")
        play.run(30)
        hold(play, "s2")
        request(play)
        play.run(LAG_MS / 2)
        assert not answered(play), "it had caught up"
        release(play, "s2")
        play.run(2)


def test_answers_come_though_there_are_always_newer_questions() -> None:
    with durable("s2") as play:
        core = play["s2"]
        durability, done = core.asking.durability, core.executed
        durability.asked(core.own_watermark())
        for later in (5, 10, 15):
            durability.asked(core.own_watermark() + later)
        assert durability.has_performed_what_was_asked(done)
        durability.answered()
        assert not durability.has_performed_what_was_asked(done), "the newest is asked for still"
        durability.forget_questions()


@pytest.mark.parametrize("begun", [True, False])
def test_a_new_primary_waits_until_it_has_heard_of_its_backups_disks(begun: bool) -> None:
    with durable("s2", *(["s3"] if begun else []), servers=3) as play:
        hold(play, "s3")
        dead = play["s1"].standing.birth_id
        play.crash("s1")
        for name in ("s2", "s3"):
            play.certify(dead, name)
        play.until(lambda: play["s2"].role == "primary")
        assert {each.suspect for each in play.recorded(Suspected)} == {dead}
        request(play)
        play.run(PROMOTION_MS)
        assert answered(play) is not begun
        release(play, "s3")
        play.run(2)
        assert answered(play)
