"""Compiles the native parts into one library, once for each version of their sources:
`python -m llft.runtime.native.build`.

`make setup` does it; so does the first replica that finds nothing compiled. The library lies beside its
sources, or where that cannot be written in the user's cache directory. Its name has a digest of them, so
that a library of another version is never loaded; it appears under that name when it is whole, so
that several replicas may compile at once.

This also runs in a replica's process, before the program: it uses `os` alone, and no `subprocess`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from llft import originals

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = (
    "pulse.c",
    "lifeline.c",
    "spool.c",
    *(f"image_{part}.c" for part in ("maps", "park", "restore", "stub", "take", "traits", "write")),
)
SOURCES = tuple(os.path.join(HERE, name) for name in NAMES)
HEADERS = tuple(os.path.join(HERE, name) for name in ("quiet_thread.h", "image.h"))
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-shared", "-fPIC", "-pthread")
COMPILERS = ("cc", "gcc", "clang")
COMPILE_BOUND_S = 30.0
_STEP_S = 0.01


def library() -> str:
    """The path of the compiled library; "" if there is none."""
    name = library_name()
    for directory in directories(os.environ):
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    return ""


def library_name() -> str:
    digest = blake2b(" ".join(FLAGS).encode(), digest_size=6)
    for source in (*SOURCES, *HEADERS):
        with open(source, "rb") as file:
            digest.update(file.read())
    return f"native-{digest.hexdigest()}-{os.uname().machine}.so"


def directories(environment: Mapping[str, str]) -> Iterator[str]:
    """Where it may lie. What others can write to is no place to load code from."""
    yield os.path.dirname(SOURCES[0])
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", ""), ".cache")
    if os.path.isabs(cache):
        own = os.path.join(cache, "llft")
        if not os.path.exists(own) or _is_ours_alone(own):
            yield own


def _is_ours_alone(directory: str) -> bool:
    found = os.stat(directory)
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def compiler(environment: Mapping[str, str]) -> str:
    """The path of a C compiler; "" if there is none."""
    wanted = environment.get("CC", "")
    for name in (wanted, *COMPILERS):
        for directory in environment.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(directory, name)
            if name and os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return ""


def build(environment: Mapping[str, str]) -> tuple[str, str]:
    """The library's path, compiled if need be; or "" and why there is none."""
    found = library()
    if found:
        return found, ""
    command = compiler(environment)
    if not command:
        return "", "there is no C compiler (cc)"
    reasons = []
    for directory in directories(environment):
        path = os.path.join(directory, library_name())
        failure = _compile_to(path, command, environment)
        if not failure:
            return path, ""
        reasons.append(failure)
    return "", "; ".join(reasons)


def _compile_to(path: str, command: str, environment: Mapping[str, str]) -> str:
    """ "" if it is there now, else why not."""
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        status = _run([command, *FLAGS, "-o", temporary, *SOURCES], environment)
        if status != 0:
            return f"{command} failed with status {status} for {path}"
        os.replace(temporary, path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return ""


def _run(command: list[str], environment: Mapping[str, str]) -> int:
    """Its exit status. A compiler that takes too long is ended: a replica is waiting to start."""
    pid = os.posix_spawn(command[0], command, dict(environment))
    until_ns = originals.monotonic_ns() + int(COMPILE_BOUND_S * 1e9)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if originals.monotonic_ns() > until_ns:
            os.kill(pid, 9)
        originals.sleep(_STEP_S)


def main() -> int:
    """Succeeds without a library too: everything works without, if less steadily."""
    path, reason = build(os.environ)
    if path:
        sys.stdout.write(f"{path}\n")
    else:
        sys.stdout.write(
            f"no native parts: {reason}. Replicas run without them: a program that holds the interpreter's "
            "lock for longer than the primary's timeout is taken for dead, and a death is noticed later.\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
