"""Plants in the Messaging Protocol: acknowledgments, lists, acceptance, timestamps."""

from __future__ import annotations

from typing import Any

from llft.core.holding import Holding
from llft.core.lamport import LamportClock
from llft.core.messaging import headers, lane, offering
from llft.core.messaging.acknowledgment import Acknowledgment
from llft.core.messaging.connection import Connection
from llft.core.messaging.connection_table import FinishedConnections
from llft.core.messaging.messaging import Messaging
from llft.core.messaging.reflection import HeldOrder
from llft.core.messaging.retention import Retention
from llft.instant import NEVER
from llft.simulator.plants.plant import Patch, Plant, does_nothing, returns


def _one_more(original: Any) -> Any:
    return lambda connection: original(connection) + 1


def _collects_the_next_too(original: Any) -> Any:
    def collect_sent(self: Connection, watermark: int) -> None:
        original(self, watermark)
        if self.sent:
            original(self, self.sent[0].timestamp)

    return collect_sent


def _collects_what_is_delivered(original: Any) -> Any:
    def collect_delivered(self: Connection, group_watermark: int) -> Any:
        timestamp = original(self, group_watermark)
        if timestamp and self.delivered:
            self.delivered.popleft()
        return timestamp

    return collect_delivered


def _gives_up(original: Any) -> Any:
    def retransmit_unacked(self: Retention, connection: Connection) -> None:
        connection.retransmit_ns = NEVER

    return retransmit_unacked


def _accepts_duplicates(original: Any) -> Any:
    def accept(self: Messaging, connection: Connection, message: Any, position: int, payload: bytes) -> None:
        original(self, connection, message, max(position, connection.received_up_to + 1), payload)

    return accept


def _accepts_over_gaps(original: Any) -> Any:
    def accept(self: Connection, message: Any) -> None:
        self.received_up_to = max(self.received_up_to, message.position - 1)
        original(self, message)

    return accept


def _accepts_superseded(original: Any) -> Any:
    def accepts_view(self: Messaging, connection: Connection, header: Any) -> Any:
        return original(self, connection, header) or connection.in_view.supersedes(header.source_view)

    return accepts_view


def _delivers_uncommitted(original: Any) -> Any:
    def deliverable(connection: Connection, held: HeldOrder, *, committed_only: bool) -> int:
        view = connection.received[0].view
        first = [message for message in connection.received if message.view == view]
        return sum(len(message.payload) for message in first) - connection.read_offset

    return deliverable


def _holds_what_it_was_asked_for(original: Any) -> Any:
    def answer(self: Holding) -> None:
        watermark = self.replica.own_watermark
        self.replica.own_watermark = lambda: NEVER  # type: ignore[method-assign]
        original(self)
        self.replica.own_watermark = watermark  # type: ignore[method-assign]

    return answer


PLANTS = (
    Plant(
        "second-ack-unearned",
        "a backup acknowledges a FirstAck for a message that it has not generated (line 64)",
        (Patch(Acknowledgment, "has_generated", returns(True)),),
    ),
    Plant(
        "ack-one-too-high",
        "the ack field names a message that has not come yet",
        (Patch(lane, "acknowledged", _one_more), Patch(headers, "acknowledged", _one_more)),
        profile="lost-client-lossy",
        seed=247,
    ),
    Plant(
        "collect-sent-early",
        "the sent list is garbage collected one message beyond the remote group's watermark",
        (Patch(Connection, "collect_sent", _collects_the_next_too),),
        seed=2,
    ),
    Plant(
        "collect-delivered-early",
        "the delivered list is garbage collected one message beyond the group's watermark",
        (Patch(Connection, "collect_delivered", _collects_what_is_delivered),),
        seed=7,
    ),
    Plant(
        "never-collect-delivered",
        "delivered messages are never garbage collected",
        (Patch(Connection, "collect_delivered", returns(0)),),
    ),
    Plant(
        "no-retransmission",
        "a message that is not acknowledged is not sent again",
        (Patch(Retention, "retransmit_unacked", _gives_up),),
        profile="loss",
        seed=112,
    ),
    Plant(
        "nack-unanswered",
        "a primary does not pass on the messages that its backups miss",
        (Patch(Retention, "on_local_nack", does_nothing),),
        seed=1,
    ),
    Plant(
        "duplicate-delivery",
        "a retransmission of a message that was received is taken for the next one",
        (Patch(Messaging, "_accept", _accepts_duplicates),),
    ),
    Plant(
        "gap-ignored",
        "a message that comes ahead of others is delivered ahead of them",
        (Patch(Connection, "accept", _accepts_over_gaps),),
    ),
    Plant(
        "accept-superseded",
        "messages of a superseded remote primary are accepted (D-06)",
        (Patch(Messaging, "accepts_view", _accepts_superseded),),
        profile="reorder",
        seed=549,
    ),
    Plant(
        "finished-comes-alive",
        "a late Request on a connection that is over opens it again",
        (Patch(FinishedConnections, "__contains__", returns(False)),),
        seed=2,
    ),
    Plant(
        "lamport-ignores-delivery",
        "the Lamport clock does not advance with ordered deliveries and a backup's sends (D-05)",
        (Patch(LamportClock, "on_deliver", does_nothing),),
        seed=22,
    ),
    Plant(
        "commit-ignored",
        "a gateway delivers before the output commit (D-10)",
        (
            Patch(offering, "_deliverable", _delivers_uncommitted),
            Patch(offering, "_may_end", returns(True)),
        ),
        profile="lost-client-lossy",
        seed=15,
    ),
    Plant(
        "held-before-it-is-here",
        "a backup says that it holds what it was asked for while messages are missing (D-75)",
        (Patch(Holding, "answer", _holds_what_it_was_asked_for),),
        profile="lost-client-lossy",
        seed=13,
    ),
)
