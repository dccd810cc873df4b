"""Heartbeats in dialogues, heard and said (D-77, `llft/dialogue/beating.c`), and what is forgotten because of
them (`llft/dialogue/forgetting.c`)."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.determinizer.operations import Receive, Select, Send
from llft.instant import MS
from llft.journal.record import HeartbeatArrived
from llft.runtime.native.pulse import NoPulse
from llft.wire.codec import decode
from llft.wire.messages import MessageFlag, MessageType
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import BACKUP, PRIMARY, SECOND, Server, World

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


def test_when_the_primary_was_heard_can_be_asked_while_it_lasts(world: World, native: Any) -> None:
    """Copies count as well: who looks whether it is stopped (D-73) would do so in vain."""
    backup, questions = brisk_backup(world)
    assert native.fellow_heard_ns() == 0, "not in this dialogue"
    sealed, heard_ns = backup.line.seal(beats_of_primary(world)[0]), 0
    for _ in range(2):
        before_ns = time.monotonic_ns()
        assert heard_ns < before_ns
        backup.line.put_sealed(sealed)
        assert go_on(backup, questions.pop(0))
        heard_ns = native.fellow_heard_ns()
        assert before_ns <= heard_ns <= time.monotonic_ns()
    backup.take_back()
    assert native.fellow_heard_ns() == 0


def test_one_that_tells_of_more_than_has_come_ends_it_in_a_silence(world: World) -> None:
    """What was recorded last may be lost: the core asks for it."""
    backup, questions = brisk_backup(world)
    backup.lasts_ns = 100 * SECOND
    assert go_on(backup, questions[0])
    backup.line.put(beats_of_primary(world)[0])
    assert not backup.talk(Receive(1, 100)), "the other questions were answered"
    assert backup.take_back() <= 1


def test_one_that_tells_nothing_new_does_not(world: World) -> None:
    backup, questions = brisk_backup(world)
    backup.lasts_ns = SECOND // 20
    for question in questions:
        assert go_on(backup, question)
    backup.take_back()
    world.tell()
    assert backup.lend()
    assert hears(backup), "the last one"
    beat = beats_of_primary(world)[-1]
    backup.line.put(beat)
    assert not backup.talk(Receive(1, 100)), "its time is over"
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


# -- at a primary, and said ----------------------------------------------------------------------------


def talking_primary(world: World) -> Server:
    primary = world.primary
    primary.core.pause_ns = SECOND
    primary.talks = True
    assert primary.lend()
    return primary


def answers(world: World, text: bytes = b"a question") -> bool:
    world.client.hear()
    world.client.call(Send(1, text))
    world.primary.feed(len(world.primary.heard))
    return world.primary.talk(Receive(1, 100)) and world.primary.talk(Send(1, b"an answer"))


def backup_performs_all(world: World) -> None:
    """In steps of its core, and says so."""
    backup = world.backup
    while backup.heard:
        backup.hear()
        while backup.out and backup.call(Receive(1, 100)) and backup.call(Send(1, b"an answer")):
            pass
    backup.beat()


def in_steps(world: World) -> bytes:
    """The same without dialogues: a digest of what has come."""
    primary = world.primary
    for _ in range(ROUNDS + 1):
        world.client.hear()
        world.client.call(Send(1, b"a question"))
        primary.hear()
        assert primary.call(Receive(1, 100))
        assert primary.call(Send(1, b"an answer"))
    return primary.connection().received_digest(primary.connection().received_up_to)


def test_a_primary_forgets_what_its_backups_have(world: World) -> None:
    primary = talking_primary(world)
    for _ in range(ROUNDS):
        assert answers(world)
    backup_performs_all(world)
    before_ns = time.monotonic_ns()
    assert answers(world), "the Heartbeat came before this question"
    assert primary.take_back() == 0
    core, connection = primary.core, primary.connection()
    assert core.detector.heard_ns[BACKUP] >= before_ns
    assert core.messaging.lane.group_watermark == core.messaging.watermarks.of_member[BACKUP] > 0
    assert len(connection.delivered) == 2, "the backup has heard of all but the last two"
    assert connection.members_timestamp >= connection.delivered[0].timestamp - 2
    assert connection.forgotten.position == connection.delivered[0].position - 1
    other = World()
    expected = in_steps(other)
    other.close()
    assert connection.received_digest(connection.received_up_to) == expected


def test_what_was_forgotten_is_told_to_the_other_end(world: World) -> None:
    """With the next message: so its window has room again."""
    primary = talking_primary(world)
    for _ in range(ROUNDS):
        assert answers(world)
    kept_before = len(world.client.connection().sent)
    backup_performs_all(world)
    assert answers(world)
    assert answers(world)
    world.client.hear()
    assert len(world.client.connection().sent) < kept_before
    primary.take_back()


def test_it_beats_when_it_is_due_and_goes_on(world: World) -> None:
    primary = world.primary
    primary.lasts_ns = SECOND // 20
    pulse = ctypes.c_int64()
    primary.dialogues.pulse = PulseAt(pulse)
    intra = primary.core.intra
    beat, interval_ns = intra.beat, intra.timeouts.heartbeat_interval_ns
    intra.heartbeat_ns = time.monotonic_ns() + 3 * MS
    talking_primary(world)
    assert not primary.talk(Receive(1, 100)), "nothing comes, and its time is over"
    ended_ns = time.monotonic_ns()
    primary.take_back()
    assert intra.beat == beat + 1
    assert intra.beaten_ns < ended_ns < intra.heartbeat_ns == intra.beaten_ns + interval_ns
    assert pulse.value == intra.beaten_ns + PulseAt.LEAVE_NS
    heard = world.backup.core.intra.heard_beat
    world.backup.hear()
    assert world.backup.core.intra.heard_beat == heard + 1


def test_who_waits_for_the_commit_is_told_of_it_with_a_beat(native: Any) -> None:
    """What the backup said itself may have been lost (D-75); the dialogue does not end for it."""
    world = World(level=1)
    primary, backup = world.primary, world.backup
    primary.core.pause_ns, primary.lasts_ns = SECOND, SECOND // 20
    primary.talks = True
    asking, intra = primary.core.asking, primary.core.intra
    world.client.call(Send(1, b"a question"))
    intra.heartbeat_ns = time.monotonic_ns() + 20 * MS
    beat = intra.beat
    assert primary.lend()
    primary.feed(1)
    assert primary.talk(Receive(1, 100))
    assert primary.talk(Send(1, b"an answer"))
    backup.hear()
    backup.beat()
    assert [decode(data).header.message_type for data in primary.heard] == [
        MessageType.HELD,
        MessageType.HEARTBEAT,
    ]
    primary.feed(2)
    world.client.heard.clear()
    assert not primary.talk(Receive(1, 100)), "nothing comes, and its time is over"
    primary._speak()
    (announced,) = [decode(data) for data in world.client.heard]
    assert announced.header.message_type == MessageType.KEEP_ALIVE
    assert primary.take_back() == 0, "all of it was of the dialogue"
    assert intra.beat == beat + 1
    committed = primary.core.messaging.lane.order_committed
    assert asking.announced == announced.header.order_committed == committed
    world.close()


class PulseAt(NoPulse):
    LEAVE_NS = 7

    def __init__(self, at: ctypes.c_int64) -> None:
        self._at = at

    def life(self) -> tuple[int, int]:
        return ctypes.addressof(self._at), self.LEAVE_NS


def test_a_backup_tells_its_primary_how_far_it_is(world: World) -> None:
    backup, questions = brisk_backup(world)
    assert go_on(backup, questions.pop(0))
    backup.take_back()
    beats_of_primary(world)
    backup.core.intra.heartbeat_ns = time.monotonic_ns()
    assert backup.lend()
    for question in questions:
        assert go_on(backup, question)
    backup.take_back()
    world.primary.hear()
    known = world.primary.core.messaging.watermarks.of_member[BACKUP]
    assert 0 < known <= backup.core.own_watermark()
    assert backup.core.intra.heartbeat_ns > time.monotonic_ns()


def test_who_would_be_suspected_is_left_to_the_core(world: World) -> None:
    primary = world.primary
    primary.lasts_ns = 100 * SECOND
    now_ns = time.monotonic_ns()
    primary.core.detector.restart(BACKUP, now_ns - 90_000 * SECOND)
    primary.core.intra.heartbeat_ns = now_ns
    beat = primary.core.intra.beat
    talking_primary(world)
    assert not primary.talk(Receive(1, 100))
    primary.take_back()
    assert primary.core.intra.beat == beat


def test_one_that_says_more_than_there_is_is_left_to_the_core(world: World) -> None:
    """Nobody can have what was not recorded: what all have would be too much."""
    primary = talking_primary(world)
    watermark = primary.core.messaging.lane.group_watermark
    backup = world.backup
    intra = backup.core.intra
    intra._send_heartbeat(1 << 40, MessageFlag.NONE, PRIMARY)
    backup.perform(backup.core.drain())
    primary.feed(1)
    assert not primary.talk(Receive(1, 100))
    assert primary.core.messaging.lane.group_watermark == watermark
    assert primary.take_back() == 1
