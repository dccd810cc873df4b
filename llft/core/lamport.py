"""The Lamport clock that timestamps application messages (D-05).

It advances on ordered sends and deliveries only, never on receipt: a backup that performs
the same operations in the same order gives every message the same timestamp as its primary.
"""

from __future__ import annotations


class LamportClock:
    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def on_send(self) -> int:
        self.value += 1
        return self.value

    def on_deliver(self, timestamp: int) -> None:
        if timestamp > self.value:
            self.value = timestamp
