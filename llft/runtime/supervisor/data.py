"""The data directory of a group, at its supervisor: the seed, and the copies that remain.

    <run directory>/data/seed           what the directory was when the group was founded
    <run directory>/data/replica-<n>    each replica's own copy
    <run directory>/data/lost-<time>/   copies of a group that lost all its members, and began anew

Nothing here is ever overwritten by mistake: a run is refused while copies of an earlier one are there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from llft.errors import MisuseError
from llft.runtime.own_directory import Data
from llft.runtime.state.tree import pack
from llft.runtime.supervisor.slot import Slot

SEED = "seed"


def data_of(root: Path, path: str, name: str) -> Data:
    """Of one replica."""
    return Data(path, str(root / name), str(root / SEED))


def prepare(root: Path, path: str, *, goes_on: bool) -> None:
    """At the start of a run. `goes_on`: from histories on disk, which began with the seed that is there."""
    if goes_on and (root / SEED).exists():
        return
    if _copies(root):
        remedy = f"put the copy that you want in the place of {path}, then remove {root}"
        raise MisuseError("data-of-an-earlier-run", remedy, directory=str(root))
    _found(Path(path), root)
    root.mkdir(mode=0o700, exist_ok=True)
    (root / SEED).write_bytes(pack(path))


def _found(directory: Path, root: Path) -> None:
    """It is there afterwards, and can be part of a state: a copy of it has an end."""
    if root.resolve().is_relative_to(directory.resolve()):
        remedy = "choose a directory that has the program's files and nothing else"
        raise MisuseError("data-contains-the-run", remedy, data=str(directory), run=str(root))
    try:
        os.makedirs(directory, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise MisuseError("data-is-no-directory", "give a directory", path=str(directory)) from None


def set_aside(root: Path) -> None:
    """The group begins anew, with the seed: what its members had written is kept."""
    lost = root / f"lost-{time.time_ns()}"
    for copy in _copies(root):
        lost.mkdir(exist_ok=True)
        copy.rename(lost / copy.name)


def remains(root: Path, replicas: Iterable[Slot]) -> str:
    """What is said of it at the end of a run."""
    primary = [slot.name for slot in replicas if slot.role == "primary"]
    return f"the replicas' data remains in {root}; the primary was {', '.join(primary) or 'none of them'}"


def _copies(root: Path) -> list[Path]:
    return sorted(root.glob("replica-*"))
