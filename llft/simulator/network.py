"""The network: datagrams between processes, which it loses, doubles, delays and damages.

A link is directed, from one process to another, so that a partition may be asymmetric and a
group's clients may be on either side of it. Laws:

1. A link keeps order unless it chooses to reorder a datagram, as a switch does. A delay
   spike therefore holds up what follows it on the same link.
2. Datagrams in flight outlive their sender: a crash takes back nothing.
3. A damaged datagram is never handed to the core as a different *valid* message. In a running
   system the keyed MAC drops it (D-15); here the network, which knows what it damaged,
   hands it over only if decoding refuses it, so the core's manners are tested
   without a Byzantine fault, which the paper's model excludes.
4. While `quiet`, nothing is lost, damaged, reordered or spiked, and a datagram needs
   less than `CERTIFICATE_MIN_NS` to arrive; the double crash of connected primaries asks for this.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from llft.errors import PeerError
from llft.instant import MS, US
from llft.simulator.world import World

BASE_DELAY_NS = (20 * US, 140 * US)
JITTER_NS = 50 * US
CERTIFICATE_MIN_NS = 200 * US
SPIKE_NS = (300 * US, 4 * MS)
REORDER_NS = (50 * US, 1500 * US)


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """Probabilities, per datagram and link."""

    loss: float = 0.0
    duplication: float = 0.0
    reorder: float = 0.0
    corruption: float = 0.0
    spike: float = 0.0
    rare: float = field(init=False)
    """That anything of these happens: one comparison decides the common case."""

    def __post_init__(self) -> None:
        rare = self.loss + self.duplication + self.reorder + self.corruption + self.spike
        object.__setattr__(self, "rare", rare)


PERFECT = LinkQuality()


class Endpoint(Protocol):
    """A process, as the network sees it."""

    @property
    def number(self) -> int: ...
    @property
    def receive(self) -> Callable[[bytes], None]: ...


class Link:
    __slots__ = ("base_ns", "last_arrival_ns")

    def __init__(self, base_ns: int) -> None:
        self.base_ns = base_ns
        self.last_arrival_ns = 0


class Network:
    """`send` is called for every datagram and receiver: one random draw in the common case."""

    __slots__ = (
        "_blocked",
        "_links",
        "_normal",
        "_quality",
        "_quiet_count",
        "_rng",
        "_special",
        "_wanted",
        "_world",
        "counters",
    )

    def __init__(self, world: World, rng: random.Random, quality: LinkQuality) -> None:
        self.counters = dict.fromkeys(
            ("sent", "lost", "duplicated", "reordered", "corrupted", "spiked", "blocked"), 0
        )
        self._world = world
        self._rng = rng
        self._links: dict[tuple[int, int], Link] = {}
        self._blocked: set[tuple[int, int]] = set()
        self._normal = quality
        self._wanted = quality
        self._quality = quality
        self._special: dict[int, LinkQuality] = {}
        self._quiet_count = 0

    def send(self, sender: int, receiver: Endpoint, data: bytes) -> None:
        key = (sender, receiver.number)
        if self._blocked and key in self._blocked:
            self.counters["blocked"] += 1
            return
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(self._rng.randint(*BASE_DELAY_NS))
        draw = self._rng.random()
        quality = self._quality
        if self._special:
            quality = self._special.get(receiver.number, quality)
        arrival_ns = self._world.now_ns + link.base_ns + int(draw * JITTER_NS)
        if draw < quality.rare:
            self._mishap(draw, quality, link, receiver, data, arrival_ns)
            return
        if arrival_ns <= link.last_arrival_ns:
            arrival_ns = link.last_arrival_ns + 1
        link.last_arrival_ns = arrival_ns
        self._world.at(arrival_ns, receiver.receive, data)

    def _mishap(
        self,
        draw: float,
        quality: LinkQuality,
        link: Link,
        receiver: Endpoint,
        data: bytes,
        arrival_ns: int,
    ) -> None:
        """Which of the rare things it is: the draw that said "rare" decides that as well."""
        rng, world, counters = self._rng, self._world, self.counters
        draw -= quality.loss
        if draw < 0:
            counters["lost"] += 1
            return
        draw -= quality.duplication
        if draw < 0:
            counters["duplicated"] += 1
            world.at(arrival_ns, receiver.receive, data)
            world.at(arrival_ns + rng.randint(1, 2 * MS), receiver.receive, data)
            return
        draw -= quality.reorder
        if draw < 0:
            counters["reordered"] += 1
            world.at(arrival_ns + rng.randint(*REORDER_NS), receiver.receive, data)
            return
        draw -= quality.corruption
        if draw < 0:
            counters["corrupted"] += 1
            damaged = damage(rng, data)
            if refused(damaged):
                world.at(arrival_ns, receiver.receive, damaged)
            return
        counters["spiked"] += 1
        link.last_arrival_ns = max(arrival_ns, link.last_arrival_ns) + rng.randint(*SPIKE_NS)
        world.at(link.last_arrival_ns, receiver.receive, data)

    def set_quality(self, quality: LinkQuality | None, *, receiver: int | None = None) -> None:
        """Another quality for a while, of all links or (the paper's selective communication loss)
        of those to one receiver; None: the normal one again, everywhere."""
        self._special = {receiver: quality} if quality is not None and receiver is not None else {}
        self._wanted = quality if quality is not None and receiver is None else self._normal
        self._settle()

    def begin_quiet(self) -> None:
        self._quiet_count += 1
        self._settle()

    def end_quiet(self) -> None:
        self._quiet_count -= 1
        self._settle()

    def _settle(self) -> None:
        if self._quiet_count:
            self._special = {}
        self._quality = PERFECT if self._quiet_count else self._wanted

    def block(self, links: Iterable[tuple[int, int]]) -> None:
        self._blocked.update(links)

    def heal(self) -> None:
        self._blocked.clear()

    def is_blocked(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._blocked

    @property
    def partitioned(self) -> bool:
        return bool(self._blocked)


def damage(rng: random.Random, data: bytes) -> bytes:
    """Flip some bits, or cut the end off."""
    if not data or rng.random() < 0.3:
        return data[: rng.randrange(len(data) + 1)]
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def refused(data: bytes) -> bool:
    """Whether the decoder refuses these bytes (law 3). Only the datagram as a whole is asked: a body
    that does not decode is no proof, since the core may act on the header before it looks."""
    from llft.wire.codec import decode

    try:
        decode(data)
    except PeerError:
        return True
    return False
