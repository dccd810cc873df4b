"""A primary's Heartbeats in its backups' dialogues (D-74, `llft/dialogue/beating.c`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.determinizer.operations import Receive, Select, Send
from llft.instant import MS
from llft.journal.record import HeartbeatArrived
from llft.wire.messages import MessageFlag
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import PRIMARY, SECOND, Server, World

pytestmark = pytest.mark.reference

ROUNDS = 8


@pytest.fixture
def world(native: Any) -> Iterator[World]:
    made = World()
    made.backup.core.pause_ns = SECOND
    yield made
    made.close()


def one_round(world: World) -> bytes:
    """A question and its answer; the next question tells the backup of both."""
    primary = world.primary
    world.client.hear()
    world.client.call(Send(1, b"a question"))
    primary.hear()
    assert primary.call(Receive(1, 100))
    assert primary.call(Send(1, b"an answer"))
    return world.backup.heard.pop()


def brisk_backup(world: World) -> tuple[Server, list[bytes]]:
    """It has waited for a moment in its dialogue. And the questions that it has not heard yet."""
    backup = world.backup
    questions = [one_round(world) for _ in range(ROUNDS)]
    backup.talks = True
    assert backup.lend()
    backup.heard.extend(questions[:2])
    backup.feed(2)
    assert hears(backup)
    return backup, questions[2:]


def hears(backup: Server) -> bool:
    return backup.talk(Receive(1, 100)) and backup.talk(Send(1, b"an answer"))


def beats_of_primary(world: World, count: int = 1) -> list[bytes]:
    for _ in range(count):
        world.primary.beat()
    return [world.backup.heard.popleft() for _ in range(count)]


def go_on(backup: Server, question: bytes) -> bool:
    backup.heard.append(question)
    backup.feed(len(backup.heard))
    return hears(backup)


def arrived(backup: Server) -> list[int]:
    return [record.interval_ns for record in backup.records if isinstance(record, HeartbeatArrived)]


def test_they_do_not_end_it_while_the_log_comes(world: World) -> None:
    backup, questions = brisk_backup(world)
    before_ns = time.monotonic_ns()
    told = len(arrived(backup))
    beats = beats_of_primary(world, 3)
    for beat, question in zip(beats, questions, strict=False):
        backup.line.put(beat)
        assert go_on(backup, question)
    after_ns = time.monotonic_ns()
    assert backup.take_back() == 0
    intra = backup.core.intra
    assert intra.heard_beat == world.primary.core.intra.beat
    assert before_ns <= backup.core.detector.heard_ns[PRIMARY] <= after_ns
    backup.perform(backup.core.drain())
    assert len(arrived(backup)) == told + len(beats)
    assert sum(arrived(backup)[-2:]) < after_ns - before_ns


def test_what_they_say_of_the_watermark_is_heard(world: World) -> None:
    """What all have is forgotten, as without a dialogue."""
    backup, questions = brisk_backup(world)
    assert go_on(backup, questions.pop(0))
    backup.take_back()
    backup.beat()
    world.primary.hear()
    beat = beats_of_primary(world)[0]
    before = backup.core.messaging.lane.group_watermark
    assert backup.lend()
    assert go_on(backup, questions.pop(0))
    backup.line.put(beat)
    assert go_on(backup, questions.pop(0))
    assert backup.take_back() == 0
    assert backup.core.messaging.lane.group_watermark > before


def test_one_that_wants_something_ends_it(world: World) -> None:
    backup, questions = brisk_backup(world)
    world.primary.core.intra.send_heartbeat(MessageFlag.ANSWER_AT_ONCE)
    world.primary.perform(world.primary.core.drain())
    backup.line.put(backup.heard.popleft())
    assert not go_on(backup, questions[0])
    assert backup.take_back()


def test_one_that_came_twice_is_looked_at_by_the_core(world: World) -> None:
    """A copy, as the pulse has them: only the core knows what came before."""
    backup, questions = brisk_backup(world)
    beat = beats_of_primary(world)[0]
    sealed = backup.line.seal(beat)
    backup.line.put_sealed(sealed)
    assert go_on(backup, questions.pop(0))
    backup.line.put_sealed(sealed)
    assert go_on(backup, questions.pop(0))
    assert backup.take_back() == 0, "it had come before"


def test_the_first_silence_ends_it(world: World) -> None:
    backup, questions = brisk_backup(world)
    backup.lasts_ns = 100 * SECOND
    backup.line.put(beats_of_primary(world)[0])
    assert go_on(backup, questions[0])
    began_ns = time.monotonic_ns()
    assert not backup.talk(Receive(1, 100))
    assert time.monotonic_ns() - began_ns < SECOND
    assert backup.take_back() == 0
    assert backup.core.intra.heard_beat == world.primary.core.intra.beat


def test_it_ends_when_the_primary_would_be_suspected(world: World) -> None:
    """Though the log comes, which others may reflect. Beats put it off."""
    backup, questions = brisk_backup(world)
    assert go_on(backup, questions.pop(0))
    backup.take_back()
    detector, now_ns = backup.core.detector, time.monotonic_ns()
    timeout_ns = detector.timeouts.primary_timeout_ns
    detector.restart(PRIMARY, now_ns - timeout_ns + 5 * MS)
    backup.dialogues.patience_ns = 100 * SECOND
    backup.core.intra.heartbeat_ns = now_ns + SECOND
    assert backup.lend()
    while time.monotonic_ns() < now_ns + 6 * MS:
        pass
    assert not go_on(backup, questions[0])


def test_a_primary_that_never_waits_is_busy_too(native: Any) -> None:
    """It finds what has come whenever it looks: its backups' Heartbeats do not end its dialogue."""
    world = World(connections=2)
    primary = world.primary
    primary.core.pause_ns = SECOND
    primary.talks = True
    assert primary.lend(Select(world.fds, -1, (), interruptible=True))
    assert primary.talk(Select(world.fds, 6 * MS, (), interruptible=True)), "it has waited for long"
    assert primary.result == ()
    world.client.call(Send(1, b"a question"))
    primary.feed(1)
    looks = Select(world.fds, 0, (), interruptible=True)
    assert primary.talk(looks)
    assert primary.result == (1,)
    world.backup.beat()
    primary.feed(1)
    assert primary.talk(looks)
    world.close()
