"""Plants in the order information: recorded, carried, held, reflected, counted (D-04)."""

from __future__ import annotations

from typing import Any

from llft.core.intra_group import IntraGroup
from llft.core.messaging.order_stream import OrderStream
from llft.core.messaging.reflection import HeldOrder
from llft.core.messaging.watermark import Watermarks
from llft.core.replica import Replica
from llft.core.virtual_sockets import VirtualSockets
from llft.simulator.plants.plant import Patch, Plant, Slip, does_nothing, returns


def _carries_nothing(original: Any) -> Any:
    """Also where the ordinary path takes it: the stream claims to have nothing left to carry."""

    def slice_(self: OrderStream, start: int, end: int) -> Any:
        return b"" if start == self.unreflected else original(self, start, end)

    return slice_


def _whole_stream(original: Any) -> Any:
    def own_watermark(self: Replica) -> int:
        return self.messaging.lane.orders.end

    return own_watermark


def _of_the_best(original: Any) -> Any:
    def group_watermark(self: Watermarks, own: int) -> int:
        return max(self.of_member.values(), default=own)

    return group_watermark


def _reported_ahead(by: int) -> Slip:
    def slip(original: Any) -> Any:
        def report(self: Watermarks, birth_id: Any, watermark: int, executed: int, *, has_past: bool) -> None:
            original(self, birth_id, watermark + by, executed, has_past=has_past)

        return report

    return slip


def _leaves_first(original: Any) -> Any:
    def write(self: VirtualSockets, fd: int, *rest: Any) -> Any:
        written = original(self, fd, *rest)
        if self.unsent is not None:
            self.messaging.push(self.unsent)
        return written

    return write


PLANTS = (
    Plant(
        "no-order-suffix",
        "messages carry no order information: only the primary knows what it did",
        (Patch(OrderStream, "suffix", returns(b"")), Patch(OrderStream, "slice", _carries_nothing)),
    ),
    Plant(
        "skip-reflection",
        "a remote group neither keeps nor reflects the order information that it gets",
        (Patch(HeldOrder, "hold", does_nothing),),
        seed=2,
    ),
    Plant(
        "order-never-asked-for",
        "a backup does not ask its primary for order information that it misses",
        (Patch(IntraGroup, "note_order_end", does_nothing),),
        seed=4,
    ),
    Plant(
        "watermark-without-messages",
        "a backup reports the end of its order information as its watermark, though messages are missing",
        (Patch(Replica, "own_watermark", _whole_stream),),
        seed=3,
    ),
    Plant(
        "watermark-too-high",
        "the primary counts a backup's watermark for a few bytes more than was reported",
        (Patch(Watermarks, "report", _reported_ahead(40)),),
    ),
    Plant(
        "group-watermark-of-the-best",
        "the group's watermark is the highest of its members' instead of the lowest",
        (Patch(Watermarks, "group_watermark", _of_the_best),),
        seed=2,
    ),
    Plant(
        "send-before-recording",
        "a message leaves before the order entry of its own sending is recorded",
        (Patch(VirtualSockets, "write", _leaves_first),),
        seed=2,
    ),
)
