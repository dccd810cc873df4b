"""The figures: what each is, and which points it has unless others are asked for.

A default run of a figure takes about a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llft.cli.measure.applications import APPLICATIONS
from llft.cli.measure.network import LOOPBACK, NETWORKS, SPIN_US
from llft.cli.measure.operations import OPERATIONS

LARGEST_BYTES = 32 * 1024 * 1024
MOST_REPLICAS = 9
MOST_CONNECTIONS = 10_000
LANES = ("compiled", "reference")
BOTH = "both"
YES, NO = "yes", "no"
PLAIN, GROUP = "plain", "group"
STORES = ("llft", "llft-group", "redis", "etcd", "pysyncobj")


def numbers(least: int, most: int) -> Callable[[str], list[int]]:
    """Reads a list such as 64,1024."""

    def read(text: str) -> list[int]:
        try:
            found = [int(word) for word in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} is not a list of numbers such as 1,2,3") from None
        for number in found:
            if not least <= number <= most:
                raise argparse.ArgumentTypeError(f"{number} is not from {least} to {most}")
        return found

    return read


def names(among: Iterable[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in among:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(among)}")
        return found

    return read


LISTS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "sizes": (numbers(1, LARGEST_BYTES), "bytes of a request, and of its reply"),
    "replicas": (numbers(1, MOST_REPLICAS), "of the server"),
    "client_replicas": (numbers(1, MOST_REPLICAS), "of the client"),
    "clients": (numbers(1, MOST_CONNECTIONS), "connections, each with a request under way"),
    "counts": (numbers(0, 100_000), "operations in a request"),
    "operations": (names(OPERATIONS), "kinds of them"),
    "output_commit": (numbers(0, 15), "levels: so many backups know before a reply leaves"),
    "connections": (numbers(1, MOST_CONNECTIONS), "idle ones"),
    "stores": (names(STORES), "stores"),
    "applications": (names(APPLICATIONS), "programs"),
    "client": (names((PLAIN, GROUP)), "who asks: a plain client through the gateway, or a process group"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    help: str
    description: str
    lists: Mapping[str, list[Any]]
    """Its options that are lists, with their defaults."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 3
    seconds: float = 0.2
    placement: str = BOTH
    networks: tuple[str, ...] = (LOOPBACK,)
    spin: tuple[int, ...] = (SPIN_US,)
    """How long groups look before they sleep: as everywhere, and not at all (0)."""


def default_arguments(figure: Figure, **asked: Any) -> argparse.Namespace:
    """As if its verb had been given these options and no others."""
    manner = {"rounds": figure.rounds, "seconds": figure.seconds, "placement": figure.placement}
    manner |= {"backups": "other", "lane": None, "config": None, "network": LOOPBACK, "spin": None}
    return argparse.Namespace(figure=figure.name, **figure.lists, **figure.fixed, **{**manner, **asked})


FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            "latency",
            "latency against message size, plain TCP and LLFT",
            "What a request takes end to end by the size of request and reply: plain TCP, and a client group "
            "that asks\na server group. The same programs on both sides, in turns.",
            {"sizes": [64, 1024, 8192, 65536, 1048576], "replicas": [2, 3], "client_replicas": [1, 3]},
            seconds=0.15,
            networks=NETWORKS,
            spin=(SPIN_US, 0),
        ),
        Figure(
            "throughput",
            "requests per second against the number of clients",
            "Requests per second of 1 KB, with replies of 1 KB and no think time. TCP is the better of a "
            "server with\nthreads and one that selects.",
            {"clients": [1, 4, 8, 16, 64], "replicas": [3]},
            {"size": 1024},
            networks=NETWORKS,
        ),
        Figure(
            "replicas",
            "latency against the number of replicas",
            "What a request of 1 KB takes, and the processor time of primary and backup for it.",
            {"replicas": [1, 2, 3, 4, 5], "sizes": [1024]},
            {"client_replicas": [1]},
            networks=NETWORKS,
        ),
        Figure(
            "nondeterminism",
            "latency against clock readings and the like in a request",
            "What each further non-deterministic operation of a request costs over the native call.",
            {"counts": [0, 25, 100], "operations": list(OPERATIONS), "replicas": [3]},
            {"size": 1024},
        ),
        Figure(
            "viewchange",
            "how long a change of the primary takes",
            "From the suspicion to the new primary, without clients: until all is done but to note it (us), "
            "and until that is done (noted_us). A round is a kill.",
            {"replicas": [2, 3, 4, 5]},
            rounds=5,
        ),
        Figure(
            "gateway",
            "what an outside TCP client sees, by output commit",
            "A plain client, and a group behind its gateway.",
            {"sizes": [64, 1024, 8192, 65536], "output_commit": [0, 1], "replicas": [3]},
        ),
        Figure(
            "apps",
            "real servers, native and replicated",
            "The servers of the live tests, asked by plain clients through their gateway, and by a client\n"
            "that is a process group itself and talks with them directly.",
            {"applications": list(APPLICATIONS), "replicas": [3], "client": [PLAIN, GROUP]},
            {"connections": 8},
            placement="two-cores",
        ),
        Figure(
            "memory",
            "resident memory of a replica, and of idle connections",
            "Resident memory of a server, of its replicas and of their gateway.",
            {"connections": [1, 500, 1000], "replicas": [3]},
            rounds=1,
        ),
        Figure(
            "peers",
            "the same writes on Redis, etcd and PySyncObj",
            "A key-value store of three nodes, LLFT's and others': latency, throughput, fail-over and what\n"
            "it lost. A round is a cluster of its own, and a kill of its primary. Clients are plain; in\n"
            "llft-group the client is a process group as well, and there is no gateway.",
            {"stores": list(STORES)},
            {"connections": 8},
            seconds=1.0,
        ),
    )
}
