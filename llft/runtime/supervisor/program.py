"""Which interpreter runs the user's command, and what it runs.

    python server.py --port 8000      -> python,            [server.py --port 8000]
    python -u -m http.server          -> python, flags -u,  [-m http.server]
    uvicorn app:app                   -> the interpreter of uvicorn's #! line, [/path/to/uvicorn app:app]

A replica is a fresh interpreter of the *user's* Python with a core inside, so that the program finds the
packages it is used to. The first `-m` or file name is where the interpreter's own options end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llft.errors import MisuseError

MINIMUM_VERSION = (3, 11)
_PYTHON_NAME = re.compile(r"python(\d+(\.\d+)?)?")
_FLAGS_WITH_VALUE = ("-X", "-W")
_ISOLATING = re.compile(r"-[A-Za-z]*[EI]")
_PIP_TRAMPOLINE = re.compile(rb"'''exec' \"?([^\"\n]+?)\"? \"\$0\" \"\$@\"")
_VERSION_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Program:
    """The user's command, taken apart."""

    interpreter: str
    flags: tuple[str, ...]
    """The interpreter's own options, such as -u."""
    words: tuple[str, ...]
    """What it runs: a file or `-m` and a module, then the program's arguments."""

    def command(self, module: str) -> list[str]:
        """The command that runs one of our modules in this interpreter. Without `site`: what packages hook
        into the interpreter's start is to be interposed like the rest of the program."""
        return [self.interpreter, *self.flags, "-S", "-m", module]


def resolve(command: Sequence[str]) -> Program:
    """Take the user's command apart; MisuseError says what is wrong with it."""
    if not command:
        raise MisuseError("no-command", "write the command after --, such as: llft run -- python server.py")
    first, rest = command[0], list(command[1:])
    if _PYTHON_NAME.fullmatch(Path(first).name):
        program = _of_python(_find(first), rest)
    elif first.endswith(".py") and Path(first).is_file():
        program = Program(sys.executable, (), (first, *rest))
    else:
        script = _find(first)
        program = Program(_interpreter_of(script), (), (script, *rest))
    _check_version(program.interpreter)
    return program


def _find(word: str) -> str:
    found = shutil.which(word)
    if found is None:
        raise MisuseError("command-not-found", "give its path, or put it on PATH", command=word)
    # Not resolved further: a virtual environment's python is a link, and is known by its own path.
    return os.path.abspath(found)


def _of_python(interpreter: str, words: list[str]) -> Program:
    flags: list[str] = []
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        if _ISOLATING.fullmatch(words[0]):
            remedy = "leave it out: the replica finds LLFT through PYTHONPATH"
            raise MisuseError("isolated-interpreter", remedy, option=words[0])
        takes = 2 if words[0] in _FLAGS_WITH_VALUE else 1
        flags += words[:takes]
        words = words[takes:]
    if not words or words[0] in ("-c", "-"):
        remedy = "put the program into a file: every replica must read the same one"
        raise MisuseError("no-program-file", remedy, found=words[0] if words else "")
    if words[0] == "-m" and len(words) < 2:
        raise MisuseError("no-module", "name it after -m")
    if words[0] != "-m" and not Path(words[0]).is_file():
        raise MisuseError("no-such-program", "give the path of the program's file", path=words[0])
    return Program(interpreter, tuple(flags), tuple(words))


def _interpreter_of(script: str) -> str:
    """The Python of a console script."""
    with open(script, "rb") as file:
        head = file.read(1024)
    line = head.partition(b"\n")[0].decode(errors="replace").strip()
    # pip writes this where the interpreter's path is too long for a #! line, or has a space.
    trampoline = _PIP_TRAMPOLINE.search(head)
    if trampoline is not None:
        return trampoline.group(1).decode()
    words = line[2:].split() if line.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    if not words or not _PYTHON_NAME.fullmatch(Path(words[0]).name):
        raise MisuseError("not-a-python-program", "only programs in Python can be replicated", path=script)
    return _find(words[0])


def _check_version(interpreter: str) -> None:
    asked = [interpreter, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        result = subprocess.run(asked, capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True)
        major, minor = map(int, result.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise MisuseError(
            "interpreter-unusable", "give another Python", path=interpreter, why=str(error)
        ) from None
    if (major, minor) < MINIMUM_VERSION:
        needed = ".".join(map(str, MINIMUM_VERSION))
        remedy = f"run the program with Python {needed} or newer"
        raise MisuseError("interpreter-too-old", remedy, path=interpreter, version=f"{major}.{minor}")


def make_library(directory: Path) -> Path:
    """A directory that holds LLFT and nothing else, for PYTHONPATH.

    The directory that LLFT is installed in would do for LLFT; but it may be another environment's
    site-packages, and the program would find that environment's packages before its own.
    """
    import llft

    library = directory / "lib"
    library.mkdir(exist_ok=True)
    link, draft = library / "llft", library / f".llft-{os.getpid()}"
    draft.symlink_to(Path(llft.__file__).resolve().parent, target_is_directory=True)
    draft.replace(link)  # at once: replicas of this group may be starting (a second run is refused later)
    return library
