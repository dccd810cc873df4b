"""A place for one replica or gateway: the process that has it now, when the next one may start, what it last
said.

A process that dies is replaced after a back-off: 250 ms, doubled up to 5 s while processes die within 2 s of
their start. One that lived longer begins again at 250 ms.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from llft.runtime.control_client import Answer, Inquiry
from llft.runtime.native.image import stop_randomising
from llft.runtime.priority import step_back

FIRST_PAUSE_S = 0.25
"""A fail-over is over by then, and the start of an interpreter takes a processor for a while."""
LONGEST_PAUSE_S = 5.0
QUICK_DEATH_S = 2.0
HOPELESS_QUICK_DEATHS = 5
USELESS_STATUS = 78
"""Exit status of a process that another start would not help: it is not like its group, for instance."""
HUNG_AFTER = 5
"""Questions of a second each."""
TAIL_LINES = 15
MEMBER_ROLES = ("primary", "backup", "proposing", "recovering")
_TAIL_BYTES = 8192
_MEANINGS = {70: " (a failure of its own: see its log)", USELESS_STATUS: " (it cannot run so: see its log)"}
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class BackOff:
    """When a process (or a whole group) that died may be replaced; a death within `quick_s` is quick."""

    quick_s: float = QUICK_DEATH_S
    quick_deaths: int = 0

    def pause_after(self, lived_s: float) -> float:
        """The pause after a process that lived so long."""
        self.quick_deaths = self.quick_deaths + 1 if lived_s < self.quick_s else 0
        doublings = max(0, self.quick_deaths - 1)
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**doublings)

    @property
    def hopeless(self) -> bool:
        return self.quick_deaths >= HOPELESS_QUICK_DEATHS


@dataclass(slots=True)
class Slot:
    """`kind` is "replica" or "gateway"; `number` is from 1, and never used for another process of the kind
    at once.
    """

    kind: str
    number: int
    log: Path
    socket: Path
    process: subprocess.Popen[bytes] | None = None
    pidfd: int = -1
    lives: int = 0
    started_s: float = 0.0
    restart_at_s: float | None = None
    back_off: BackOff = field(default_factory=BackOff)
    held: bool = False
    """Its next process waits for the founder's to serve."""
    founds: bool = False
    """Its present process was to found the group."""
    removed: bool = False
    """It is to leave, by `remove_by_s`; `pressed`: it was told so by SIGTERM."""
    remove_by_s: float = 0.0
    pressed: bool = False
    status: Answer | None = None
    """What the present process last said of itself; None: nothing yet."""
    last_end: str = ""
    """How the process before the present one ended; empty: there was none."""
    status_at_s: float = 0.0
    unanswered: int = 0
    """So many questions in a row it took, and gave no answer."""
    inquiry: Inquiry | None = None
    next_inquiry_s: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.number}"

    @property
    def title(self) -> str:
        return f"{self.kind} {self.number}"

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    @property
    def role(self) -> str:
        return str(self.status.get("role", "")) if self.status is not None else ""

    @property
    def is_member(self) -> bool:
        """Whether it said, in its present life, that it has the group's state."""
        return self.role in MEMBER_ROLES

    def start(self, command: Sequence[str], environment: dict[str, str], *, fixed: bool = False) -> None:
        """A new process in this place; its output is added to the log. OSError: there is none. `fixed`: at
        addresses that are not random, if that is allowed."""
        assert self.process is None, f"{self.title} already has a process"
        self.socket.unlink(missing_ok=True)
        self.lives += 1
        with open(self.log, "ab", buffering=0) as log:
            with suppress(OSError):  # a full disk is no reason not to start it
                _write_heading(log, f"{self.title}, life {self.lives}")
            joins = self.kind == "replica" and not self.founds
            process = start_child(command, environment, output=log, fixed=fixed, back=joins)
        try:
            self.pidfd = os.pidfd_open(process.pid)
        except OSError:
            process.kill()
            process.wait()
            raise
        self.process = process
        self.started_s, self.restart_at_s = time.monotonic(), None
        self.status, self.status_at_s, self.next_inquiry_s, self.unanswered = None, 0.0, 0.0, 0

    def reap(self) -> int | None:
        """The exit status (negative: the signal) if the process ended; it is forgotten then."""
        if self.process is None or self.process.poll() is None:
            return None
        status: int = self.process.returncode
        self.last_end = how_ended(status)
        os.close(self.pidfd)
        self.process, self.pidfd = None, -1
        self.status, self.status_at_s = None, 0.0
        self.end_inquiry()
        self.socket.unlink(missing_ok=True)
        return status

    def signal(self, number: int) -> None:
        """To the process, if there is one; exactly to it, also if it just ended."""
        if self.process is not None:
            try:
                signal.pidfd_send_signal(self.pidfd, number)
            except ProcessLookupError:
                return  # it ended already, and will be reaped

    def end_inquiry(self) -> None:
        if self.inquiry is not None:
            self.inquiry.close()
            self.inquiry = None

    def give_up_asking(self) -> None:
        self.end_inquiry()
        self.unanswered += 1

    @property
    def hangs(self) -> bool:
        """A replica that hangs is for its group to replace; a gateway is alone, and all its clients hang with
        it. One question may have been our own pause, several are not."""
        return self.kind == "gateway" and self.unanswered == HUNG_AFTER

    def log_tail(self) -> list[str]:
        """The last lines that its processes wrote."""
        try:
            with open(self.log, "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError as error:
            return [f"(it cannot be read: {error.strerror})"]
        return text.splitlines()[-TAIL_LINES:]


def how_ended(status: int) -> str:
    """What an exit status means."""
    if status >= 0:
        meaning = _MEANINGS.get(status, "")
        return f"ended with status {status}{meaning}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _write_heading(log: IO[bytes], text: str) -> None:
    log.write(f"--- {text}, {time.strftime('%Y-%m-%d %H:%M:%S')} ---\n".encode())


def start_child(
    command: Sequence[str],
    environment: dict[str, str],
    *,
    output: IO[bytes] | int,
    fixed: bool = False,
    back: bool = False,
    **pipes: Any,
) -> subprocess.Popen[bytes]:
    """A child that ends with us, whatever ends us, in a session of its own: Ctrl-C is for us alone.
    `back`: it lets others come first (`runtime.priority`)."""
    pipes.setdefault("stdin", subprocess.DEVNULL)
    pipes.setdefault("stderr", output)
    end_with_us = ending_with(os.getpid())

    def arrange() -> None:
        end_with_us()
        if fixed:
            stop_randomising()
        if back:
            step_back()

    return subprocess.Popen(
        command,
        env=environment,
        stdout=output,
        start_new_session=True,
        preexec_fn=arrange,
        **pipes,
    )


def ending_with(parent: int, number: int = signal.SIGKILL) -> Callable[[], None]:
    """A function that a new process calls to get this signal when its parent ends."""

    def arrange() -> None:
        if _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent:
            os.kill(os.getpid(), number)

    return arrange
