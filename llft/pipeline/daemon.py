"""The process that Spark's Python workers are forked from: Spark's own, but for where its modules are found.

Spark puts its Python modules in front of the path as a zip file of sources, which every worker compiles
again: most of a second before its first row. On this machine the same modules are installed, and compiled.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

ZIPS = ("pyspark.zip", "py4j-*-src.zip")


def take_installed_modules(path: list[str]) -> None:
    """Leave the zip files of an installed pyspark out; others may be of another version, and stay."""
    here = [one for one in path if not any(Path(one).match(zip_file) for zip_file in ZIPS)]
    before, path[:] = list(path), here
    found = find_spec("pyspark")
    home = Path(found.origin).parent if found is not None and found.origin else None
    if any(home not in Path(one).parents for one in before if one not in here):
        path[:] = before


if __name__ == "__main__":
    take_installed_modules(sys.path)
    from pyspark.daemon import manager

    manager()
