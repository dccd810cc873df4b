"""Connections that are looked at because of what they are, or because of the time."""

from __future__ import annotations

import random

import pytest

from llft.core.messaging.connection import Connection
from llft.core.messaging.connection_table import ConnectionTable
from llft.core.messaging.due import Due
from llft.core.messaging.subset import Subset
from llft.errors import InvariantError
from llft.identifiers import NO_VIEW, ConnectionId
from llft.instant import NEVER

GROUP = 2


def table_of(count: int) -> tuple[ConnectionTable, list[Connection]]:
    table = ConnectionTable(GROUP)
    return table, [table.create(ConnectionId(1, GROUP, number), NO_VIEW) for number in range(1, count + 1)]


def test_a_subset_has_the_order_of_the_table_and_drops_what_does_not_belong() -> None:
    table, connections = table_of(4)
    subset = Subset(table, lambda connection: connection.closed_here)
    for connection in reversed(connections):
        connection.closed_here = True
        subset.note(connection)
    assert list(subset) == connections
    connections[1].closed_here = False
    table.forget(connections[2])
    assert list(subset) == [connections[0], connections[3]]
    connections[1].closed_here = True
    assert list(subset) == [connections[0], connections[3]], "it was not noted again"
    subset.note(connections[1])
    assert list(subset) == [connections[0], connections[1], connections[3]]


def test_the_audit_notices_who_was_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subset, "audited", True)
    table, connections = table_of(2)
    subset = Subset(table, lambda connection: connection.closed_here)
    connections[1].closed_here = True
    with pytest.raises(InvariantError, match="connection_overlooked"):
        list(subset)


def test_nobody_is_taken_too_late_whatever_becomes_of_the_timers() -> None:
    rng = random.Random(1)
    _, connections = table_of(20)
    due = Due()
    for now_ns in range(0, 20_000, 7):
        connection = rng.choice(connections)
        if rng.random() < 0.5:
            connection.keep_alive_ns = now_ns + rng.randrange(1, 300)
            due.arm(connection, connection.keep_alive_ns)
        elif connection.keep_alive_ns != NEVER:  # later, and not told
            connection.keep_alive_ns += rng.randrange(100)
        taken = due.take(now_ns)
        assert {c.number for c in connections if c.keep_alive_ns <= now_ns} <= {c.number for c in taken}
        for connection in taken:
            if connection.keep_alive_ns <= now_ns:
                connection.keep_alive_ns = NEVER
            due.arm(connection, connection.keep_alive_ns)
        assert due.soonest(lambda c: c.keep_alive_ns) == min(c.keep_alive_ns for c in connections)


def test_what_is_over_is_never_due() -> None:
    _, (connection,) = table_of(1)
    due = Due()
    due.arm(connection, 10)
    due.forget(connection)
    due.arm(connection, 5)
    assert due.take(100) == []
    assert due.soonest(lambda c: 10) == NEVER
