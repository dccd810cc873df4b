"""A scratch process, as the replica sees it: given a state and a piece of log, what did the program call?

It is started in the same way as a replica, so that the interpreter in it is in the same state when the
program begins. Everything it is told is in one file; what it found is in another. It ends with the
replica, or when it is ended here, by its process id.
"""

from __future__ import annotations

import json
import posix
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from llft import originals
from llft.past.keeper import Verdict
from llft.past.source import Captured, NotCapturedError
from llft.runtime.priority import Behind

SCRATCH = "LLFT_SCRATCH"
FIRST_TO_GO = "1000"
"""What a trial makes of its `oom_score_adj`, as soon as it has asked to end with the replica."""
_LAST_WORDS_BYTES = 600
_SIGKILL, _SIGCONT, _SIGSTOP = 9, 18, 19
_exit_code = posix.waitstatus_to_exitcode
"""Negative: the signal that ended it."""


class Task(NamedTuple):
    """What a scratch process is told."""

    source: str
    state: str
    position: int
    digest: int
    head: str
    log: str
    verdict: str
    temporary: str


def read_task(path: str) -> Task:
    with open(path, "rb") as file:
        return Task(*json.loads(file.read()))


class ScratchProcess:
    def __init__(
        self,
        prefix: str,
        command: list[str],
        environment: Mapping[str, str],
        source: str,
        captured: Captured,
        log: tuple[bytes, bytes],
    ) -> None:
        """`prefix` is of its files' names; `log` is the head, and what follows the state."""
        self._paths = [f"{prefix}.{name}" for name in ("task", "head", "followed", "verdict", "words")]
        task, head, followed, self._verdict, self._words = self._paths
        what = Task(
            source,
            captured.path,
            captured.position,
            captured.digest,
            head,
            followed,
            self._verdict,
            f"{prefix}.tmp",
        )
        for path, data in zip((task, head, followed), (json.dumps(what).encode(), *log), strict=True):
            with open(path, "wb") as file:
                file.write(data)
        self._pid = originals.posix_spawn(
            command[0], command, {**environment, SCRATCH: task}, file_actions=self._actions(), setsid=True
        )
        self._behind = Behind(self._pid)
        self._hold_until_ns = 0
        self._stopped, self._was_held = False, False

    def _actions(self) -> list[tuple[object, ...]]:
        """What the program prints, it has printed; what goes wrong is for us."""
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC
        return [
            (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
            (posix.POSIX_SPAWN_OPEN, 1, "/dev/null", posix.O_WRONLY, 0),
            (posix.POSIX_SPAWN_OPEN, 2, self._words, flags, 0o600),
        ]

    def hold(self, until_ns: int) -> None:
        """It is to stop until then: a joiner needs what is left of the processors. Once: whoever joins again
        and again must not keep it from ending."""
        if self._pid and not self._was_held:
            self._hold_until_ns = until_ns
            self._stop_or_go_on()

    def _stop_or_go_on(self) -> None:
        """One that is stopped before it has asked to end with us would stay for ever if we were killed."""
        now_ns = originals.monotonic_ns()
        if self._stopped and now_ns >= self._hold_until_ns:
            self._stopped = False
            originals.kill(self._pid, _SIGCONT)
        elif not self._was_held and now_ns < self._hold_until_ns and self._ends_with_us():
            self._stopped = self._was_held = True
            originals.kill(self._pid, _SIGSTOP)

    def _ends_with_us(self) -> bool:
        """It has asked for it (PR_SET_PDEATHSIG): that cannot be seen, but what it does next can. How long it
        takes nobody knows: where others use the processors it may not have begun after a second."""
        return _oom_score_adj("self") != FIRST_TO_GO == _oom_score_adj(str(self._pid))

    def verdict(self) -> Verdict | None:
        done, status = originals.waitpid(self._pid, posix.WNOHANG)
        if not done:
            self._stop_or_go_on()
            self._behind.tend()
            return None
        self._pid = 0
        if status:
            raise NotCapturedError(f"its trial failed with status {_exit_code(status)}: {self._last_words()}")
        with open(self._verdict, "rb") as file:
            return Verdict(*json.loads(file.read()))

    def _last_words(self) -> str:
        try:
            with open(self._words, "rb") as file:
                text = file.read()[-_LAST_WORDS_BYTES:].decode("utf-8", "replace")
        except OSError:
            return "it said nothing"
        return text.strip() or "it said nothing"

    def end(self) -> None:
        if self._pid:
            originals.kill(self._pid, _SIGKILL)
            originals.waitpid(self._pid, 0)
            self._pid = 0
        for path in self._paths:
            with suppress(FileNotFoundError):
                originals.unlink(path)


def _oom_score_adj(process: str) -> str:
    with open(f"/proc/{process}/oom_score_adj") as file:
        return file.read().strip()
