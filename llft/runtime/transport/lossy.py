"""A transport that loses, duplicates and reorders what it receives, by chance and seed, for tests.

It does so at the receiver, because a multicast that one member missed is the case worth having. What is
held back comes after later datagrams, or with a later call of `receive`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from llft.identifiers import BirthId, GroupId
from llft.runtime.settings import FaultInjection
from llft.runtime.transport.interface import Address, Peer, Transport

_WORD: Final = (1 << 64) - 1


class Chance:
    """xorshift64*: `random` belongs to the program and is patched."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 ^ 0xD1B54A32D192ED03) & _WORD or 1

    def happens(self, probability: float) -> bool:
        state = self._state
        state ^= state >> 12
        state ^= state << 25 & _WORD
        state ^= state >> 27
        self._state = state
        return (state * 0x2545F4914F6CDD1D & _WORD) < probability * (_WORD + 1)


class LossyTransport:
    """A Transport round another one."""

    def __init__(self, inner: Transport, faults: FaultInjection, birth_id: BirthId) -> None:
        self._inner = inner
        self._faults = faults
        self._chance = Chance(faults.seed ^ birth_id.pid << 20 ^ birth_id.start_ns)
        self._held: list[bytes] = []
        self._counts = {"injected_loss": 0, "injected_duplicate": 0, "injected_reorder": 0}

    @property
    def payload_limit(self) -> int:
        return self._inner.payload_limit

    @property
    def service_port(self) -> int:
        return self._inner.service_port

    @service_port.setter
    def service_port(self, port: int) -> None:
        self._inner.service_port = port

    @property
    def warnings(self) -> list[str]:
        return [*self._inner.warnings, f"faults are injected on purpose: {self._faults}"]

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        self._inner.multicast(group_id, data)

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        self._inner.transmit(birth_id, data)

    def route(self, to: GroupId | BirthId) -> Sequence[Address]:
        return self._inner.route(to)

    def seal_pulse(self, data: bytes) -> bytes:
        return self._inner.seal_pulse(data)

    @property
    def sending_fileno(self) -> int:
        return self._inner.sending_fileno

    def receive(self) -> list[bytes]:
        late, self._held = self._held, []
        batch: list[bytes] = []
        for data in self._inner.receive():
            if self._happens("loss"):
                continue
            if self._happens("reorder"):
                self._held.append(data)
                continue
            batch.append(data)
            if self._happens("duplicate"):
                batch.append(data)
        return batch + late

    def _happens(self, fault: str) -> bool:
        happens = self._chance.happens(getattr(self._faults, fault))
        self._counts[f"injected_{fault}"] += happens
        return happens

    def filenos(self) -> tuple[int, ...]:
        return self._inner.filenos()

    def urgent_filenos(self) -> tuple[int, ...]:
        return self._inner.urgent_filenos()

    def peers(self) -> Iterable[Peer]:
        return self._inner.peers()

    def statistics(self) -> dict[str, int]:
        return {**self._inner.statistics(), **self._counts}

    def abandon(self) -> None:
        self._inner.abandon()

    def close(self) -> None:
        self._inner.close()
