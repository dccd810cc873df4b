"""Which lane this process runs: the compiled one if it is there and of these very sources, else the other.

The compiled lane is the same modules (`modules`), made into C by mypyc and laid in `llft/lane/compiled`
with a manifest of the sources that they were made of. A source that has changed since makes all of it
stale: compiled classes know each other's layout, so it is taken whole or not at all. `LLFT_LANE=reference`
does without it; `LLFT_LANE=compiled` insists on it.

This runs before anything else of ours in every process, under the program's own interpreter too: it imports
what is built into the interpreter alone, and leaves `sys.path` as it is.
"""

from __future__ import annotations

import posix
import sys
from _blake2 import blake2b
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from _imp import extension_suffixes

_HERE = __file__.rpartition("/")[0]
SOURCES = _HERE.rpartition("/")[0].rpartition("/")[0]
GROUP = "llft_lane__mypyc"
"""The library that all compiled modules share."""
REMEDY = "make setup compiles it (it needs a C compiler and mypy)"
VARIABLE = "LLFT_LANE"


def directory() -> str:
    """One for each interpreter that may find itself here."""
    return f"{_HERE}/compiled/{sys.implementation.cache_tag}-{posix.uname().machine}"


class CompiledModules:
    """Finds compiled modules by their names; everything else is left to the usual finders."""

    def __init__(self, paths: dict[str, str]) -> None:
        self._paths = paths

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        place = self._paths.get(name)
        if place is None or not self._has_group():
            return None
        return ModuleSpec(name, ExtensionFileLoader(name, place), origin=place)

    def _has_group(self) -> bool:
        """The library is loaded with the first module. One that does not load (another libc, a damaged file)
        is as good as none, unless it was insisted on."""
        if GROUP not in sys.modules:
            try:
                self._load_group()
            except ImportError:
                sys.modules.pop(GROUP, None)
                if _wanted() == "compiled":
                    raise
                sys.meta_path.remove(self)
                return False
        return True

    def _load_group(self) -> None:
        loader = ExtensionFileLoader(GROUP, self._paths[GROUP])
        module = loader.create_module(ModuleSpec(GROUP, loader, origin=self._paths[GROUP]))
        sys.modules[GROUP] = module
        loader.exec_module(module)


def install() -> None:
    """Called once, by the package itself."""
    wanted = _wanted()
    if wanted not in ("", "compiled", "reference"):
        raise ImportError(f"{VARIABLE} is {wanted!r}: say compiled or reference, or leave it out")
    if wanted == "reference":
        return
    reason = why_not()
    if not reason:
        sys.meta_path.insert(0, CompiledModules(_paths()))
    elif wanted == "compiled":
        raise ImportError(f"{VARIABLE} is compiled, but {reason}; {REMEDY}")


def _wanted() -> str:
    return posix.environ.get(VARIABLE.encode(), b"").decode("ascii", "replace")


def in_use() -> str:
    """compiled or reference."""
    compiled = any(isinstance(finder, CompiledModules) for finder in sys.meta_path)
    return "compiled" if compiled else "reference"


def described() -> str:
    """For people: the lane, and what is the matter if it is not the fast one."""
    lane = in_use()
    reason = ""
    if lane == "reference":
        reason = why_not() or ("" if _wanted() == "reference" else "the compiled lane does not load")
    return f"{lane} lane ({reason}; {REMEDY})" if reason else f"{lane} lane"


def why_not() -> str:
    """What keeps the compiled lane from being used; "" if nothing does."""
    try:
        with open(f"{directory()}/manifest") as file:
            lines = file.read().splitlines()
    except OSError:
        return "the compiled lane is not there"
    for line in lines:
        digest, size, mtime_ns, path = line.split(" ", 3)
        if not _is_same(f"{SOURCES}/{path}", digest, int(size), int(mtime_ns)):
            return f"{path} has changed since the lane was compiled"
    return ""


def _is_same(path: str, digest: str, size: int, mtime_ns: int) -> bool:
    try:
        found = posix.stat(path)
    except OSError:
        return False
    if found.st_size != size:
        return False
    return found.st_mtime_ns == mtime_ns or digest_of(path) == digest


def digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return blake2b(file.read(), digest_size=16).hexdigest()


def _paths() -> dict[str, str]:
    place, suffix = directory(), extension_suffixes()[0]
    found = {GROUP: f"{place}/{GROUP}{suffix}"}
    with open(f"{place}/manifest") as file:
        for line in file.read().splitlines():
            name = line.split(" ", 3)[3].rpartition(".")[0].replace("/", ".")
            found[name] = f"{place}/{name.replace('.', '/')}{suffix}"
    return found
