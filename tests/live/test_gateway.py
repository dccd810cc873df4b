"""The gateway between real TCP clients and a replicated server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.gateway_world import World


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    """Worlds that a test puts here are closed at its end."""
    made: list[World] = []
    yield made
    for world in made:
        world.close()


def make(worlds: list[World], **options: Any) -> World:
    world = World(**options)
    worlds.append(world)
    return world


def test_bytes_go_both_ways_and_both_sides_end(worlds: list[World]) -> None:
    world = make(worlds)
    client = world.connect()
    client.sendall(b"hello")
    assert world.read(client, 5) == b"hello"
    client.sendall(b"again")
    assert world.read(client, 5) == b"again"
    client.shutdown(1)
    assert world.read(client, 1) == b""
    world.until(lambda: not world.gateway.relays, "the connection is over")
    assert world.gateway.counts.ends == {"closed": 1}
    world.until(lambda: not len(world.gateway.shell.core.messaging.table), "the core forgot it")
