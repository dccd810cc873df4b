"""Which modules the compiled lane has: all that a request passes through."""

from __future__ import annotations

from pathlib import Path

PACKAGES = (
    "llft/core",
    "llft/wire",
    "llft/journal",
    "llft/past",
    "llft/runtime/gateway",
    "llft/runtime/transport",
)
SINGLE = (
    *(f"llft/{name}.py" for name in ("config", "instant", "originals")),
    *(
        f"llft/runtime/{name}.py"
        for name in (
            "application",
            "application_thread",
            "arrivals",
            "calling",
            "core_lock",
            "dialogue_calls",
            "dialogue_kinds",
            "dialogue_line",
            "dialogue_witness",
            "dialogues",
            "driver",
            "immediate",
            "lending",
            "liveness",
            "native/pulse",
            "pacemaker",
            "performing",
            "poller",
            "replica_process",
            "spinning",
            "state/no_core",
            "surroundings",
        )
    ),
)
INTERPRETED = frozenset(
    {
        # The journal's reader is made from the records' annotations, which mypyc does not keep. For the same
        # reason `identifiers` is none of the single ones.
        "llft/journal/record.py",
        # A local variable keeps memory alive there that the kernel reads; compiled, it ends with its last
        # use.
        "llft/runtime/transport/kernel_loss.py",
        # mypyc cannot iterate over a union of tuples of which one is empty; for verification only.
        "llft/past/witness.py",
    }
)

_CHECKSUM = ("llft/wire/crc32.c", "llft/wire/crc32.h")
_DIALOGUE = (
    *(
        f"llft/dialogue/{name}.c"
        for name in (
            *("account", "acks", "asking", "backlog", "beating", "births", "calls", "forgetting"),
            *("fragments", "gates", "journal", "lane", "lending", "listening", "locks", "looking"),
            *("order", "relay", "selecting", "socket", "threads", "waiting"),
        )
    ),
    "llft/dialogue/dialogue.h",
    "llft/runtime/transport/datagrams.h",
)
_MAC = (
    *(f"llft/runtime/transport/{name}.c" for name in ("blake2b", "gmac", "gmac_portable", "gmac_x86")),
    *(f"llft/runtime/transport/{name}.h" for name in ("blake2b", "gmac", "gmac_parts")),
)
WRITTEN_IN_C = {
    "llft/journal/packing.c": _CHECKSUM,
    "llft/reading_on.c": (*_DIALOGUE, *_CHECKSUM),
    "llft/wire/locks.c": (),
    "llft/wire/times.c": (),
    "llft/runtime/transport/datagrams.c": (*_CHECKSUM, *_MAC),
    "llft/wire/polynomial.c": _CHECKSUM,
}
"""Extension modules, and what else each is made of. Of the compiled lane as well, and of that alone: what it
does without them it does in Python."""


def sources(root: Path) -> list[str]:
    """Of all that the lane is made of, relative to `root`."""
    return [*translated(root), *WRITTEN_IN_C, *_CHECKSUM, *_DIALOGUE, *_MAC]


def translated(root: Path) -> list[str]:
    """Of them, what mypyc makes into C. What packages say of themselves (`__init__`) is left as it is."""
    found = {str(path.relative_to(root)) for package in PACKAGES for path in (root / package).rglob("*.py")}
    return sorted(name for name in found.union(SINGLE) - INTERPRETED if not name.endswith("__init__.py"))
