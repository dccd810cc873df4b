"""The virtual group clock (paper, Time-Related Operations: the Consistent Time Service; D-18).

One clock per clock id, as the replicas of a group see it. Each replica keeps an offset between its
local physical clock and the group clock. Laws:

* The offset of the first primary is 0. A backup updates its offset with each reading it reproduces.
* A promoted backup adds its recorded offset to its local clock: the group clock neither rolls
  back nor rolls forward when the primary changes.
* The group clock never runs backwards. Where the primary's local clock does (somebody set it), the
  offset takes up the step. Holding the last value until the local clock has caught up
  was rejected: an hour's step would freeze the clock for an hour (D-18).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llft.errors import InvariantError

_LEAST: Final = -(1 << 63)

LocalClock = Callable[[int], int]
"""clock_id -> nanoseconds of this replica's own physical clock."""


class GroupClock:
    __slots__ = ("last", "offsets")

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.last: dict[int, int] = {}

    def read(self, clock_id: int, local_ns: int) -> int:
        """A reading at the primary."""
        value_ns = local_ns + self.offsets.get(clock_id, 0)
        last_ns = self.last.get(clock_id)
        if last_ns is not None and value_ns < last_ns:
            self.offsets[clock_id] = last_ns - local_ns
            value_ns = last_ns
        self.last[clock_id] = value_ns
        return value_ns

    def observe(self, clock_id: int, value_ns: int, local_ns: int) -> None:
        """A reading that a backup reproduces."""
        last_ns = self.last.get(clock_id)
        if last_ns is not None and value_ns < last_ns:
            raise InvariantError("group_clock_rolled_back", clock_id=clock_id, last=last_ns, value=value_ns)
        self.offsets[clock_id] = value_ns - local_ns
        self.last[clock_id] = value_ns

    def read_on(self, clock_id: int, values_ns: list[int]) -> None:
        """Readings that a primary has made with this offset (`runs`)."""
        last_ns, first_ns = self.last.get(clock_id), values_ns[0]
        if last_ns is not None and first_ns < last_ns:
            raise InvariantError("group_clock_rolled_back", clock_id=clock_id, last=last_ns, value=first_ns)
        self.last[clock_id] = values_ns[-1]

    def observe_on(self, clock_id: int, values_ns: list[int], local_ns: int) -> None:
        """Readings that a backup reproduced, in ascending order, the last of them at this local time."""
        self.observe(clock_id, values_ns[0], local_ns)
        self.observe(clock_id, values_ns[-1], local_ns)

    def lent(self, clock_ids: tuple[int, ...]) -> list[int]:
        """For a dialogue: what each local clock is to be moved by, and what it must not be behind."""
        found: list[int] = []
        for clock_id in clock_ids:
            found += (self.offsets.get(clock_id, 0), self.last.get(clock_id, _LEAST))
        return found

    def offset(self, clock_id: int) -> int:
        return self.offsets.get(clock_id, 0)

    def snapshot(self, local_clock: LocalClock) -> list[list[int]]:
        """[clock id, the group clock now, its last reading] of every clock that was ever read.

        Offsets themselves belong to this host's clocks and mean nothing on another one.
        """
        return [
            [clock_id, max(last_ns, local_clock(clock_id) + self.offset(clock_id)), last_ns]
            for clock_id, last_ns in sorted(self.last.items())
        ]

    def restore(self, state: Sequence[Sequence[int]], local_clock: LocalClock) -> None:
        self.offsets = {clock_id: now_ns - local_clock(clock_id) for clock_id, now_ns, _ in state}
        self.last = {clock_id: last_ns for clock_id, _, last_ns in state}
