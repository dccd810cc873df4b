"""A program that is to be measured: as it is, or as a process group. Who of its processes is who."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from llft.cli.children import end, ending_with_us
from llft.cli.group_run import GroupRun, TrialFailure
from llft.cli.survey import Group, require_primary

READY_PATIENCE_S = 60.0
PROGRAMS = Path(__file__).with_name("programs")

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Processes:
    """`serving` do the work that a client waits for; `following` are backups; `idle` are the rest."""

    serving: tuple[int, ...]
    following: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.serving, *self.following, *self.idle)


class Running(Protocol):
    """Within its context it runs, after it nothing does."""

    def processes(self) -> Processes: ...


def command_of(program: str, *words: str | int) -> list[str]:
    """One of our own programs."""
    return [sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, words)]


class PlainProgram:
    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=ending_with_us(signal.SIGKILL),
        )

    def processes(self) -> Processes:
        if self._process.poll() is not None:
            raise TrialFailure("program-ended", "see its error above", status=self._process.returncode)
        return Processes((self._process.pid,))

    def end(self) -> None:
        end(self._process)


class ReplicatedProgram:
    """`outside`: clients come through its gateway, which then works for them like the primary."""

    def __init__(self, run: GroupRun, *, outside: bool) -> None:
        self.run = run
        self._outside = outside

    @property
    def group(self) -> str:
        return self.run.directory.group

    def await_whole(self, *, listening: bool) -> Group:
        return self.run.until(
            "start",
            READY_PATIENCE_S,
            lambda group: self.run.is_whole(group) and (bool(group["listening"]) or not listening),
        )

    def processes(self) -> Processes:
        group = self.run.until("keep-its-members", READY_PATIENCE_S, self.run.is_whole)
        primary: int = require_primary(group)["pid"]
        backups = tuple(member["pid"] for member in group["members"] if member["pid"] != primary)
        gateways = tuple(each["pid"] for each in group["gateways"] if each["pid"] is not None)
        supervisor: int = group["supervisor_pid"]
        if self._outside:
            return Processes((primary, *gateways), backups, (supervisor,))
        return Processes((primary,), backups, (*gateways, supervisor))


@contextmanager
def plain(command: Sequence[str]) -> Iterator[PlainProgram]:
    program = PlainProgram(command)
    try:
        yield program
    finally:
        program.end()


def start_group(
    role: str,
    command: Sequence[str],
    *,
    replicas: int,
    outside: bool,
    gateway: bool = True,
    options: Sequence[str] = (),
    config: Path | None = None,
    settings: str = "",
    common: str = "",
    launcher: Sequence[str] = (),
) -> ReplicatedProgram:
    """Started; `await_whole` says when it is there."""
    name = f"bench-{os.getpid()}-{time.time_ns() // 10**6 % 10**6}-{next(_numbers)}-{role}"
    more = list(options) if gateway else [*options, "--no-gateway"]
    run = GroupRun(
        name,
        command,
        replicas=replicas,
        options=more,
        config=config,
        settings=settings,
        common=common,
        launcher=launcher,
    )
    run.start()
    return ReplicatedProgram(run, outside=outside)


@contextmanager
def ending(*programs: ReplicatedProgram) -> Iterator[None]:
    """What they wrote goes with them, unless one of them failed."""
    failed = False
    try:
        yield
    except TrialFailure:
        failed = True
        raise
    finally:
        for program in programs:
            program.run.end()
            if not failed:
                program.run.forget()
