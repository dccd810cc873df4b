"""The deterministic world: simulated time, randomness in named streams, a trace hash.

The world is a discrete event loop: a heap of (instant, sequence number, callback, argument). Its laws:

1. Time moves only here, from event to event; between two events nothing happens.
2. Ties are broken by the sequence number, so the order of events never depends on
   what the heap would otherwise compare.
3. All randomness comes from streams that are named and seeded from (seed, name) with
   blake2b, never with `hash()`: drawing more from one stream (say the network's) does not
   shift another (say the faults'), and PYTHONHASHSEED changes nothing.
4. Whatever happens is fed to the trace, so that two runs of one seed can be compared by
   one hash.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any

from llft.simulator.trace import Trace

Callback = Callable[[Any], None]


class World:
    """The event loop. `at` and `run` are the whole interface."""

    __slots__ = ("_heap", "_sequence", "_stopped", "event_count", "now_ns", "seed", "trace")

    def __init__(self, seed: int, *, tracing: bool = False) -> None:
        self.seed = seed
        self.now_ns = 0
        self.trace = Trace(tracing)
        self.event_count = 0
        self._heap: list[tuple[int, int, Callback, Any]] = []
        self._sequence = 0
        self._stopped = False

    def stream(self, name: str) -> random.Random:
        """An independent random source for one purpose."""
        digest = blake2b(f"{self.seed}/{name}".encode(), digest_size=16).digest()
        return random.Random(int.from_bytes(digest, "little"))

    def at(self, instant_ns: int, callback: Callback, argument: Any = None) -> None:
        """Call back at an instant, which is not in the past. The argument is passed on as it is:
        a bound method and an argument are cheaper than a closure per datagram."""
        if instant_ns < self.now_ns:
            instant_ns = self.now_ns
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (instant_ns, sequence, callback, argument))

    def stop(self) -> None:
        """Return from `run` after the present event."""
        self._stopped = True

    def run(self, *, until_ns: int, event_limit: int) -> bool:
        """Run to an instant. False: the limit of events came first, which means that something
        makes events without letting time pass."""
        heap = self._heap
        count = 0
        self._stopped = False
        while heap and count < event_limit and not self._stopped:
            if heap[0][0] > until_ns:
                break
            self.now_ns, _, callback, argument = heappop(heap)
            count += 1
            callback(argument)
        self.event_count += count
        if not self._stopped and count < event_limit:
            self.now_ns = until_ns
        return count < event_limit
