"""The process that Spark's Python workers are forked from: Spark's own, but for where its modules are found,
and when.

Spark puts its Python modules in front of the path as a zip file of sources, which every worker compiles
again: most of a second before its first row. On this machine the same modules are installed, and compiled.

Spark's own has each worker import what it needs, for it does not know what that is, and a module that starts
a thread must not be imported before a fork. We know: a job that tells in its environment (`EARLY`) what its
workers will want has it imported here, once for all of them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ZIPS = ("pyspark.zip", "py4j-*-src.zip")
EARLY = "LLFT_EARLY_MODULES"
"""Names with commas between them. None of them may start a thread."""
OF_EVERY_WORKER = "pyspark.worker"


def take_installed_modules(path: list[str]) -> None:
    """Leave the zip files of an installed pyspark out; others may be of another version, and stay."""
    here = [one for one in path if not any(Path(one).match(zip_file) for zip_file in ZIPS)]
    before, path[:] = list(path), here
    found = find_spec("pyspark")
    home = Path(found.origin).parent if found is not None and found.origin else None
    if any(home not in Path(one).parents for one in before if one not in here):
        path[:] = before


def import_early(names: Iterable[str]) -> None:
    """What is not found is left to the workers: they have more places to look at, and somebody to tell.
    Workers collect behind each task: what came with the fork they need not look at, nor copy for it."""
    for name in names:
        with suppress(ModuleNotFoundError):
            import_module(name)
    gc.freeze()


if __name__ == "__main__":
    take_installed_modules(sys.path)
    if wanted := os.environ.get(EARLY):
        import_early([OF_EVERY_WORKER, *wanted.split(",")])
    from pyspark.daemon import manager

    manager()
