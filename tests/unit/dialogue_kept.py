"""What a core keeps of a connection and of what was done on it, but for the time."""

from __future__ import annotations

from typing import Any

from llft.core.messaging.connection import Connection
from llft.core.messaging.reflection import HeldOrder
from llft.instant import NEVER
from llft.journal.record import Collected, HeartbeatArrived
from llft.past.log_reading import events as past_events
from llft.wire.order import Entry, OrderContext, OrderDecoder
from tests.unit.dialogue_world import Member

_TIMES = ("heard_ns", "keep_alive_ns", "calm_until_ns", "nacked_ns", "due_ns")
_TIMERS = ("ack_due_ns", "retransmit_ns")
_OF_BEATS = (Collected, HeartbeatArrived)
"""Before or after what its thread does meanwhile."""


def kept(member: Member) -> dict[str, Any]:
    core = member.core
    lane, engine = core.messaging.lane, core.determinizer.engine
    lane.flush()
    orders, scheduler = lane.orders, engine.scheduler  # type: ignore[attr-defined]
    found: dict[str, Any] = {
        "entries": decoded(bytes(member.orders.whole)),
        "orders": (orders.start, orders.end, orders.unreflected, orders.reflected, orders.early),
        "order bytes": bytes(orders.data),
        "committed": (lane.order_committed, lane.group_watermark),
        "lamport": lane.clock.value,
        "asking": (core.asking.end, core.asking.asked_of, core.asking.alone, core.asking.told_end),
        "asked": (core.messaging.waiting_for_backups, core.asking.holding.wanted_end),
        "members": core.messaging.watermarks.of_member,
        "scheduler": scheduler.capture(),
        "outside": (engine.outside.pick, engine.outside.recorded_count, engine.outside.counts),
        "clocks": engine.outside.clock.last,
        "counts": (engine.consumed_count, engine.followed_count, core.journalled, core.performed_count),
        "log": list(engine.log),  # type: ignore[attr-defined]
        "parked": engine.parked,
        "past": list(past_events(member.log.kept())),
        "digest": member.log.digest,
        "records": [
            (type(record), *record[1:]) for record in member.records if type(record) not in _OF_BEATS
        ],
        "fragments": core.messaging.reassembly.unfinished(),
        "held": {group_id: of_held(held) for group_id, held in lane.held.items()},
        "connections": [of_connection(connection) for connection in core.messaging.table],
    }
    if lane.encoder is not None:
        found["encoder"] = (lane.encoder.count, lane.encoder.offset, lane.encoder.context.pack())
    if core.cursor is not None:
        cursor, decoder = core.cursor, core.cursor.decoder
        found["cursor"] = (cursor.fed, cursor.watermark, cursor.passed_count, cursor.waiting)
        found["decoder"] = (decoder.count, decoder.offset, decoder.end, decoder.context.pack())
    return found


def decoded(stream: bytes) -> list[Entry]:
    decoder = OrderDecoder(OrderContext())
    decoder.feed(stream)
    entries: list[Entry] = []
    while (entry := decoder.next()) is not None:
        entries.append(entry)
    assert decoder.exhausted
    return entries


def of_held(held: HeldOrder) -> dict[str, Any]:
    return {
        "view": (held.view, held.view_start, held.waits),
        "watermark": (held.watermark, held.committed),
        "pieces": joined([(piece.start, piece.data) for piece in held.pieces]),
        "unreflected": joined(held.unreflected),
    }


def joined(pieces: list[tuple[int, bytes]]) -> dict[int, int]:
    """By their places: how it is cut into pieces does not matter."""
    return {start + at: byte for start, data in pieces for at, byte in enumerate(data)}


def of_connection(connection: Connection) -> dict[str, Any]:
    found = {
        name: getattr(connection, name)
        for name in Connection.__slots__
        if name not in (*_TIMES, *_TIMERS, "marks", "forgotten")
    }
    for name in _TIMERS:
        found[name] = getattr(connection, name) == NEVER
    marks: dict[int, tuple[int, int]] = {}
    first = connection.delivered[0].position if connection.delivered else 0
    for offset, position, timestamp in connection.marks:
        if position >= first:  # a backup marks a message again with what is read of the next one
            marks.setdefault(position, (offset, timestamp))
    found["marks"] = marks
    found["received_digest"] = connection.received_digest(connection.received_up_to)
    return found
