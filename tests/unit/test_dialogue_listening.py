"""To what a dialogue listens (`llft/dialogue/listening.c`): whoever sends to a group pays for each set that
has one of its sockets, so while a dialogue lasts the one that hears the group is in none."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import Any

import pytest

from llft import originals
from llft.core.determinizer.operations import Receive, Send
from tests.unit.dialogue_native import native  # noqa: F401
from tests.unit.dialogue_world import SECOND, World

pytestmark = pytest.mark.reference


@pytest.fixture
def world(native: Any) -> Iterator[World]:  # noqa: F811
    made = World()
    made.primary.talks = True
    made.primary.core.pause_ns = SECOND
    yield made
    made.close()


def talk(world: World, text: bytes) -> None:
    world.client.hear()
    world.client.call(Send(1, text))
    world.primary.feed(1)
    assert world.primary.talk(Receive(1, 100))
    assert world.primary.result == text
    assert world.primary.talk(Send(1, text))


def tells_of_the_group(world: World) -> bool:
    """Whether who waits for all descriptors by the set alone is told of what comes for the group."""
    line = world.primary.line
    line.put_sealed(b"a stranger's words")
    with select.epoll.fromfd(os.dup(line.fileno)) as every:
        return bool(every.poll(0))


def test_while_it_lasts_the_groups_socket_is_in_no_set(world: World) -> None:
    assert world.primary.lend()
    talk(world, b"one")
    assert not tells_of_the_group(world)
    talk(world, b"two")
    world.primary.take_back()
    assert tells_of_the_group(world)


def test_before_anybody_waits_it_is_in_the_set(world: World) -> None:
    assert world.primary.lend()
    assert tells_of_the_group(world)


def test_while_another_thread_waits_for_the_set_it_stays_there(world: World) -> None:
    """The pacemaker, which knows nothing of it, and would sleep on."""
    world.primary.shell.polled_until_ns = originals.monotonic_ns() + SECOND
    assert world.primary.lend()
    talk(world, b"one")
    assert tells_of_the_group(world)
