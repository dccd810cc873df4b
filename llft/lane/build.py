"""Compiles the lane: `python -m llft.lane.build`. `make setup` does it.

mypyc turns the modules into C, and the C compiler that there is turns this into one library and a small
one for each module's name. Where something is missing the lane is left out, and a line says what: everything
works without it, slower. What is compiled appears at once and whole, with the manifest by which `choice`
knows it.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from llft.lane import choice, modules

ROOT = Path(choice.SOURCES)
FLAGS = ("-O2", "-fwrapv", "-DNDEBUG", "-fPIC", "-fno-plt", "-fvisibility=hidden", "-w")
AS_ONE = ("-flto", "-fno-semantic-interposition")
"""For what is written in C: the parts of an extension are compiled as one, if the compiler can."""
COMPILERS = ("cc", "gcc", "clang")


class CannotCompile(Exception):
    """Says what is missing."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m llft.lane.build", description="Compile the hot path.")
    parser.add_argument("--force", action="store_true", help="even if it is there and of these sources")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    options = parser.parse_args(arguments)
    place = Path(choice.directory())
    if not options.force and is_current(place):
        print(place)
        return 0
    print("the hot path is compiled: a minute or two, once for each change of it", file=sys.stderr)
    try:
        build(place, options.jobs, anew=options.force)
    except CannotCompile as error:
        print(f"the lane is not compiled, the reference lane is used: {error}", file=sys.stderr)
        return 0
    print(place)
    return 0


def is_current(place: Path) -> bool:
    """Of these sources, and of no others. Ones that were only touched are the same."""
    if choice.why_not():
        return False
    lines = (place / "manifest").read_text().splitlines()
    return [line.split(" ", 3)[3] for line in lines] == modules.sources(ROOT)


def build(place: Path, jobs: int, *, anew: bool = False) -> None:
    """`anew`: nothing of what is there is taken over."""
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise CannotCompile("there is no C compiler; as root: apt-get install gcc")
    manifest = "".join(_line(name) for name in modules.sources(ROOT))
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as made:
        scratch, fresh = Path(made, "scratch"), Path(made, "fresh")
        extensions: list[Any] = _written_in_c()
        scratch.mkdir()
        if not anew and _has_translated(place):
            shutil.copytree(place, fresh)
        else:
            extensions += _translate(modules.translated(ROOT), scratch)
        _compile(compiler, extensions, scratch, fresh, jobs)
        (fresh / "manifest").write_text(manifest)
        old = Path(made, "old")
        if place.exists():
            place.rename(old)
        fresh.rename(place)


def _has_translated(place: Path) -> bool:
    """What mypyc makes is there, and of these sources: then what is written in C takes seconds."""
    try:
        lines = (place / "manifest").read_text().splitlines()
    except OSError:
        return False
    written = set(modules.sources(ROOT)) - set(modules.translated(ROOT))
    there = {name: digest for digest, _, _, name in (line.split(" ", 3) for line in lines)}
    wanted = {name: choice.digest_of(str(ROOT / name)) for name in modules.translated(ROOT)}
    return {name: digest for name, digest in there.items() if name not in written} == wanted


def _line(name: str) -> str:
    path = ROOT / name
    found = path.stat()
    return f"{choice.digest_of(str(path))} {found.st_size} {found.st_mtime_ns} {name}\n"


def _translate(names: Sequence[str], scratch: Path) -> list[Any]:
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        raise CannotCompile(f"{error}; pip install mypy setuptools") from error
    before, said = Path.cwd(), io.StringIO()
    os.chdir(ROOT)  # mypyc takes a file's module from its path
    try:
        with redirect_stdout(said):  # its advice on speed; what is wrong ends it
            return mypycify(
                ["--config-file=", "--follow-imports=silent", f"--cache-dir={scratch}/cache", *names],
                target_dir=str(scratch),
                opt_level="2",
                multi_file=True,
                group_name=choice.GROUP.removesuffix("__mypyc"),
            )
    except SystemExit:
        print(said.getvalue(), file=sys.stderr)
        raise
    finally:
        os.chdir(before)


class _Extension(NamedTuple):
    """As far as one of mypyc's is needed here."""

    name: str
    sources: tuple[str, ...]
    include_dirs: tuple[str, ...] = ()


def _written_in_c() -> list[_Extension]:
    return [
        _Extension(
            name.removesuffix(".c").replace("/", "."), (name, *(one for one in parts if one.endswith(".c")))
        )
        for name, parts in modules.WRITTEN_IN_C.items()
    ]


def _compile(compiler: str, extensions: Sequence[Any], scratch: Path, fresh: Path, jobs: int) -> None:
    include = [f"-I{sysconfig.get_path('include')}", f"-I{scratch}"]
    as_one = AS_ONE if _can(compiler, AS_ONE, scratch) else ()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")

    def to_object(source: str, extension: Any) -> str:
        # Two extensions may have a source in common, and are made at the same time.
        target = str(scratch / f"{extension.name}-{source.replace('/', '_')}.o")
        own = [f"-I{path}" for path in extension.include_dirs]
        _run([compiler, *flags_of(extension), *include, *own, "-c", source, "-o", target])
        return target

    def flags_of(extension: Any) -> tuple[str, ...]:
        return (*FLAGS, *as_one) if isinstance(extension, _Extension) else FLAGS

    with ThreadPoolExecutor(jobs) as pool:
        compiled = [
            (extension, [pool.submit(to_object, source, extension) for source in extension.sources])
            for extension in extensions
        ]
        links = []
        for extension, objects in compiled:
            target = fresh / f"{extension.name.replace('.', '/')}{suffix}"
            target.parent.mkdir(parents=True, exist_ok=True)
            command = [compiler, *flags_of(extension), "-shared", *(each.result() for each in objects)]
            links.append(pool.submit(_run, [*command, "-o", str(target)]))
        for link in links:
            link.result()


def _can(compiler: str, flags: Sequence[str], scratch: Path) -> bool:
    source, target = scratch / "can.c", scratch / "can.so"
    source.write_text("int one(void) { return 1; }\n")
    command = [compiler, *FLAGS, *flags, "-shared", str(source), "-o", str(target)]
    return not subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    if done.returncode:
        raise CannotCompile(f"{' '.join(command)}\n{done.stdout}")


if __name__ == "__main__":
    sys.exit(main())
