"""What must be the same at all replicas: interpreter, packages, program files, options.

A joiner compares its own fingerprint with that of the group (it travels with the checkpoint) before it
runs a line of the
program. Replicas that differ would diverge sooner or later; better to refuse now, and to say what differs.
"""

from __future__ import annotations

import posix
import site
import sys
from hashlib import blake2b
from typing import Any

from llft import originals
from llft.past.checkpoint import Fingerprint
from llft.runtime.own_directory import seed_digest
from llft.runtime.settings import Settings

FILES_MAX = 5000
DIFFERENCES_SHOWN = 8


def take(specification: dict[str, Any], settings: Settings) -> Fingerprint:
    """Of the program (the command line after the interpreter), and of what it runs in."""
    program: list[str] = specification["program"]
    options = _options(specification, settings)
    return {
        "interpreter": {
            "python": sys.version.split()[0],
            "implementation": sys.implementation.name,
            "machine": posix.uname().machine,
        },
        "packages": _packages(),
        "files": _files(program),
        "options": {"program": " ".join(program)} | {name: str(value) for name, value in options.items()},
    }


def _options(specification: dict[str, Any], settings: Settings) -> dict[str, Any]:
    group = settings.group(specification["group"])
    return {
        "llft_version": specification.get("llft_version"),
        "replication": group.replication.value,
        "threads": group.threads.value,
        "data": seed_digest(specification),
    }


def differences(group: Fingerprint, mine: Fingerprint) -> list[str]:
    """One line for each thing that differs; empty if nothing does."""
    lines = []
    for area in sorted({*group, *mine}):
        theirs, ours = group.get(area, {}), mine.get(area, {})
        for name in sorted({*theirs, *ours}):
            there, here = theirs.get(name, "absent"), ours.get(name, "absent")
            if there != here:
                lines.append(f"{area}: {name} is {there} in the group and {here} here")
    return lines


def _packages() -> dict[str, str]:
    found: dict[str, str] = {}
    for directory in [*sys.path, *_site_directories()]:
        for entry in _entries(directory or "."):
            if entry.endswith((".dist-info", ".egg-info")):
                name, _, number = entry.rpartition(".")[0].partition("-")
                found[name.lower()] = number
    return found


def _site_directories() -> list[str]:
    """Where packages are installed. The interpreter was started without `site`, and has not looked there."""
    prefix = sys.executable.rpartition("/")[0].rpartition("/")[0]
    if "pyvenv.cfg" in _entries(prefix):
        return site.getsitepackages([prefix])
    return site.getsitepackages()


def _files(program: list[str]) -> dict[str, str]:
    """The script, and the Python files beside and below it."""
    script = next((word for word in program if word.endswith(".py")), None)
    top = script.rpartition("/")[0] if script else ""
    found: dict[str, str] = {}
    pending = [top or "."]
    while pending and len(found) < FILES_MAX:
        directory = pending.pop()
        for entry in _entries(directory):
            path = f"{directory}/{entry}"
            if entry.endswith(".py"):
                found[path.removeprefix(f"{top or '.'}/")] = _digest(path)
            elif _is_package(path):
                pending.append(path)
    return found


def _entries(directory: str) -> list[str]:
    try:
        return sorted(originals.listdir(directory))
    except OSError:
        return []


def _is_package(path: str) -> bool:
    try:
        return not path.rpartition("/")[2].startswith(".") and "__init__.py" in originals.listdir(path)
    except OSError:
        return False


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return blake2b(file.read(), digest_size=8).hexdigest()
    except OSError as error:
        return f"unreadable ({error.strerror})"
