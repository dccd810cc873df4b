"""The output commit in dialogues (D-74, D-75): who asks, who answers, and what is the core's all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.config import Limits
from llft.core.determinizer.operations import Receive, Send
from llft.core.dialogue_fellow import Fellow
from llft.instant import MS
from llft.runtime import dialogues
from llft.wire.codec import decode
from llft.wire.messages import MessageFlag, MessageType
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_world import SECOND, Server, World

pytestmark = pytest.mark.reference

HELD, KEEP_ALIVE, REPLY = MessageType.HELD, MessageType.KEEP_ALIVE, MessageType.REPLY


@pytest.fixture
def world(native: Any) -> Iterator[World]:
    made = World(Limits(), level=1, has_third=True)
    made.primary.talks = True
    made.client.call(Send(1, b"a question"))
    yield made
    made.close()


def tallied(what: str) -> int:
    return int(dialogues.native.dialogue_statistics()[what])


def answer(world: World, text: bytes = b"an answer") -> list[MessageType]:
    """The primary hears a request in a dialogue, and says something. What leaves, in its order."""
    primary = world.primary
    assert primary.lend()
    primary.feed(len(primary.heard))
    assert primary.talk(Receive(1, 100))
    assert dialogues.native.send(1, text, True)
    said = primary.line.said()
    for group_id, data in said:
        if decode(data).header.flags & MessageFlag.COMMITS:
            world.backup.heard.append(data)
        else:
            world.multicast(primary, group_id, data)
    return [decode(data).header.message_type for _, data in said]


def the_backup_talks(world: World) -> Server:
    world.primary.take_back()
    world.primary.talks, world.backup.talks = False, True
    return world.backup


def test_the_question_leaves_ahead_of_the_reply_and_the_others_are_told_behind_it(world: World) -> None:
    assert answer(world) == [KEEP_ALIVE, REPLY, KEEP_ALIVE]
    question, told = list(world.backup.heard)[-2:]
    assert decode(question).header.flags == MessageFlag.COMMITS
    assert decode(told).header.flags == MessageFlag.ONE_ANSWERS


def test_a_backup_that_waits_in_its_dialogue_says_that_it_holds_it(world: World) -> None:
    before = tallied("answered")
    answer(world)
    backup = the_backup_talks(world)
    assert backup.lend()
    backup.feed(len(backup.heard))
    assert backup.talk(Receive(1, 100))
    assert tallied("answered") == before + 1
    assert decode(world.client.heard[-1]).header.message_type == HELD
    assert decode(world.primary.heard[-1]).header.message_type == HELD
    world.client.hear()
    assert world.client.call(Receive(1, 100))
    assert world.client.result == b"an answer"


def test_what_is_not_known_to_be_here_is_the_cores_question(world: World) -> None:
    """The request itself has not come."""
    answer(world)
    backup = the_backup_talks(world)
    request, *rest = backup.heard
    assert decode(request).header.message_type == MessageType.REQUEST
    backup.heard.clear()
    backup.heard.extend(rest)
    assert backup.lend()
    backup.feed(len(backup.heard))
    assert not backup.talk(Receive(1, 100))
    backup.take_back()
    end = world.primary.core.messaging.lane.orders.end
    assert backup.core.asking.holding.wanted_end == end
    assert not backup.lend(), "the core has something to say"
    backup.heard.append(request)
    backup.hear()
    assert not backup.core.asking.holding.wanted_end
    assert decode(world.primary.heard[-1]).header.message_type == HELD


def test_one_question_is_under_way_at_a_time(world: World) -> None:
    assert answer(world)[0] == KEEP_ALIVE
    primary = world.primary
    assert dialogues.native.send(1, b"and more", True)
    assert [decode(data).header.message_type for _, data in primary.line.said()] == [REPLY]
    primary.take_back()
    asking = primary.core.asking
    assert asking.under_way
    assert asking.asked_of == world.backup.birth_id == asking.alone
    assert primary.core.messaging.waiting_for_backups
    world.hear()
    assert not asking.under_way
    assert not primary.core.messaging.waiting_for_backups
    assert primary.core.messaging.lane.order_committed == primary.core.messaging.lane.orders.end


def test_an_answer_that_has_come_makes_room_for_the_next_question(world: World) -> None:
    """A reply of two messages does not wait for two answers one after the other."""
    answer(world)
    primary = world.primary
    world.backup.hear()
    assert decode(primary.heard[-1]).header.message_type == HELD
    primary.feed(len(primary.heard))
    assert dialogues.native.send(1, b"and more", True)
    question, reply = [decode(data).header for _, data in primary.line.said()][:2]
    assert (question.message_type, question.flags) == (KEEP_ALIVE, MessageFlag.COMMITS)
    assert reply.message_type == REPLY


def test_an_answer_that_is_overdue_is_the_cores_business(world: World, native: Any) -> None:
    world.primary.core.asking.patience_ns = 20_000_000
    world.primary.lasts_ns = 30 * SECOND
    answer(world)
    begun = time.monotonic()
    assert native.receive(1, 100, True) is None
    assert 0.01 < time.monotonic() - begun < 10
    assert native.send(1, b"not before all were asked", True) is None


def test_what_does_not_fit_into_one_datagram_is_the_cores(world: World) -> None:
    world.primary.core.messaging.fragment_room = 10
    primary = world.primary
    assert primary.lend()
    primary.feed(len(primary.heard))
    assert primary.talk(Receive(1, 100))
    assert dialogues.native.send(1, b"much", True) is None
    assert primary.line.said() == []


def test_one_that_was_left_is_not_tried_again(world: World, native: Any) -> None:
    """A read in C that left it for a datagram of the core's, and Python's that comes behind: it would wait
    there for the next one, and the core with what came."""
    primary = world.primary
    primary.heard.clear()
    primary.lasts_ns = 30 * SECOND
    world.backup.core.intra.send_heartbeat(MessageFlag.ANSWER_AT_ONCE)
    world.backup.perform(world.backup.core.drain())
    assert primary.lend()
    primary.feed(1)
    begun = time.monotonic()
    assert native.receive(1, 100, True) is None
    assert native.receive(1, 100, True) is None
    assert time.monotonic() - begun < 10
    assert primary.take_back() == 1


def test_it_is_not_lent_while_all_are_asked(world: World) -> None:
    primary = world.primary
    primary.hear()
    primary.core.messaging.waiting_for_all = True
    assert not primary.lend()


def lent_fellow(server: Server) -> Fellow | None:
    core, now_ns = server.core, time.monotonic_ns()
    lent = core.dialogue.lend(1, list(server.world.fds), now_ns, dialogues.KINDS, 0)
    assert lent is not None
    return lent.fellow


def test_whom_nobody_waits_for_is_not_lent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks looks at two sockets; where no group waits for the output commit it need not."""
    core = world.primary.core
    monkeypatch.setattr(core, "next_deadline", lambda: time.monotonic_ns() + SECOND)
    assert lent_fellow(world.primary) is not None
    core.messaging.lane.held[world.client.group_id].waits = False
    assert lent_fellow(world.primary) is None


def test_who_was_stopped_asks_nobody(world: World, native: Any) -> None:
    """It may have been replaced meanwhile: what it hears is for the core, which finds that out."""
    primary = world.primary
    primary.core.pause_ns, primary.lasts_ns = 500 * MS, 30 * SECOND
    answer(world)
    assert native.send(1, b"and more", True)
    assert len(primary.line.said()) == 1
    world.backup.hear()
    assert decode(primary.heard[-1]).header.message_type == HELD
    later = threading.Timer(0.6, lambda: primary.feed(len(primary.heard)))
    later.start()
    assert native.receive(1, 100, True) is None
    later.join()
    assert primary.line.said() == []
    primary.take_back()
    assert decode(primary.heard[-1]).header.message_type == HELD
