"""Plants in what is on disk, and in what a group does that goes on from it: histories, restarts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from llft.core.durability import Durability
from llft.past import history, resumed
from llft.past.birth_log import BirthLog
from llft.past.history import Past
from llft.simulator import power
from llft.simulator.plants.plant import Patch, Plant
from llft.simulator.state import disk, keeping

BUFFER_BYTES = 512

# -- histories ----------------------------------------------------------------------------------------------


def _the_shortest(original: Any) -> Any:
    def furthest(found: Iterable[Past]) -> Past | None:
        return min(found, key=lambda past: past.end, default=None)

    return furthest


def _whatever_generation(original: Any) -> Any:
    def furthest(found: Iterable[Past]) -> Past | None:
        return max(found, key=lambda past: (past.view, past.end), default=None)

    return furthest


def _all_of_it(original: Any) -> Any:
    """Whole or not, whatever its digest."""

    def sound(data: bytes, digest: int) -> Iterator[tuple[bytes, int]]:
        size = history._FRAME.size
        position = 0
        while position + size <= len(data):
            length, _, view = history._FRAME.unpack_from(data, position)
            yield data[position + size : position + size + length], view
            position += size + length

    return sound


def _adopted_view(original: Any) -> Any:
    def view_number(core: Any) -> int:
        number: int = core.view.primary_view_num
        return number

    return view_number


def _in_large_pieces(original: Any) -> Any:
    def frames(log: BirthLog, written: int, view: int) -> Iterator[tuple[int, bytes]]:
        if log.length - written >= BUFFER_BYTES:
            yield from original(log, written, view)

    return frames


# -- restarts -----------------------------------------------------------------------------------------------


def _without(**named: Any) -> Any:
    """The new core is told something else."""

    def slip(original: Any) -> Any:
        return lambda *arguments, **given: original(*arguments, **given | named)

    return slip


def _what_is_held(original: Any) -> Any:
    return lambda self, held, level: held


PLANTS = (
    Plant(
        "shorter-history",
        "a group goes on from the shortest history that it finds",
        (Patch(power, "furthest", _the_shortest),),
        profile="restart",
        seed=5,
    ),
    Plant(
        "history-of-an-earlier-group",
        "a group that was restarted before goes on from a history of an earlier time",
        (Patch(power, "furthest", _whatever_generation),),
        profile="restart",
        seed=12,
    ),
    Plant(
        "history-of-an-adopted-view",
        "a history names the view that its replica has adopted, and not the one it performs in",
        (Patch(keeping, "view_number", _adopted_view),),
        profile="restart",
        seed=22,
    ),
    Plant(
        "accept-torn-history",
        "the torn end of a history counts as a part of it",
        (Patch(history, "_sound", _all_of_it),),
        profile="restart",
        seed=1,
    ),
    Plant(
        "write-behind",
        "what follows from an operation leaves the process before the operation is on disk",
        (Patch(disk, "frames", _in_large_pieces),),
        profile="restart",
        seed=1,
    ),
    Plant(
        "commit-by-memory",
        "in a durable group what a backup has received is committed, though it has not performed it",
        (Patch(Durability, "committed", _what_is_held),),
        profile="restart",
        seed=105,
    ),
    Plant(
        "forget-mutexes-at-restart",
        "a restarted group takes all mutexes for free",
        (Patch(resumed, "resumption", _without(held={})),),
        profile="restart",
        seed=46,
    ),
    Plant(
        "forget-clock-at-restart",
        "a restarted group does not know what its clock said",
        (Patch(resumed, "resumption", _without(readings={})),),
        profile="restart",
    ),
)
