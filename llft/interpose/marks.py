"""What of the interposition decides the program's future and is no object of the program's: counts.

When a thread yields, when the collector runs, which hash an object gets. A program restored by hooks
(docs/CHECKPOINTS.md) is put to the counts of the point at which its state was captured; and a capture,
which runs functions of the program at one replica only, leaves none of them changed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from llft.interpose import collecting, counting, hashing, passage, threads, writings
from llft.interpose.descriptors import table
from llft.interpose.files import own_temporary_directory
from llft.interpose.reception import reception
from llft.interpose.tcp import TcpSocket


def marks() -> Mapping[str, Any]:
    return {
        "ticks": passage._ticks,
        "calls": counting.calls(),
        "spent": counting.spent(),
        "collections": collecting._count,
        "hashed": hashing.counted(),
        "random": _random_state(),
    }


def adopt(marks: Mapping[str, Any]) -> None:
    passage._ticks = marks["ticks"]
    counting.set_calls(marks["calls"])
    counting.set_spent(marks["spent"])
    collecting._count = marks["collections"]
    hashing.count_from(marks["hashed"])
    _adopt_random(marks["random"])


def is_connected() -> bool:
    """Whether the program has a connection, is making one, or somebody has come whom it has not accepted."""
    sockets = (each for each in table.descriptions.values() if isinstance(each, TcpSocket))
    return not reception.is_empty() or any(each.stream or each.attempt for each in sockets)


def descriptors() -> list[str]:
    return [f"{number} {type(each).__name__}" for number, each in sorted(table.descriptions.items())]


def has_begun() -> bool:
    """A program that listens, or that has other threads, has come to the end of its beginning; at any
    earlier wait the rest of its main module may not have been executed."""
    return bool(reception.listeners) or threads.running_count() > 1


def leave_out(prefix: str) -> None:
    """Files whose paths begin so are not the program's."""
    writings.ours = prefix


def outside_state() -> str:
    return writings.first


def remake(temporary: str) -> None:
    own_temporary_directory(temporary)
    table.remake()


def main() -> Any:
    return sys.modules.get("__main__")


def _shared_generator() -> Any:
    """Of the functions of `random`, if the program has it."""
    return getattr(sys.modules.get("random"), "_inst", None)


def _random_state() -> Any:
    generator = _shared_generator()
    return generator.getstate() if generator is not None else None


def _adopt_random(state: Any) -> None:
    generator = _shared_generator()
    if state is not None and generator is not None:
        version, numbers, gauss = state
        generator.setstate((version, tuple(numbers), gauss))
