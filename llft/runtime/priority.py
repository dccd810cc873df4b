"""Who steps back, so that those who serve clients come first: backups, joiners, and who tries states.

Linux shares the processors out among sessions first (its autogroups), and the nice value of a process counts
within its session only. Every replica is a session of its own, so it is the session that steps back.
Coming forward again needs no right, as it would with a nice value that had been raised; and the program,
which must see the same at all replicas, does not see it (`os.getpriority`). Whether a session has stepped
back is asked of the kernel and remembered nowhere: a process that becomes an image has another's memory.

    started to join, or starts anew      its session steps back (NEARER, if it failed to join)
    begins to join                       further back, for PATIENCE_NS, or until it starves; then nearer
    caught up; proposes or is primary;   it comes forward
    suspects somebody; 2 PATIENCE_NS
    follows, and keeps up                it steps BESIDE, until it is primary or falls behind; then it is in
                                         front for PATIENCE_NS at least

A backup does as much as its primary does, and for the request before, so where there are few processors it
took half of one from what a client waits for. Nobody waits for what it does a little later, as long as it
keeps up; so one that outputs wait for (it is asked, or has a disk) stays in front. So does one without the
right (CAP_SYS_ADMIN) to come forward whenever it is needed: all those without may do so ten times a second.

Where processors are scarce, who is further back may get next to nothing. So nobody is there whom no replica
looks after (`Behind`): a joiner sees to itself when it has come so far, and a replica to the processes that
write and try its states.

Where the kernel has no autogroups nobody steps back; where control groups share the processors out, it
has no effect.
"""

from __future__ import annotations

import posix
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from llft import originals
from llft.core.standing import PRIMARY, PROPOSING, RECOVERING
from llft.instant import MS, SECOND
from llft.journal.record import Record, RoleChanged, Suspected

BACK: Final = 5
"""Nice value of a session: a third of what others get where there is not enough for all."""
NEARER: Final = BACK - 1
"""As good as the same. Who is there was removed from its group, or failed otherwise, when it joined: it may
have been too far back, and goes no further any more."""
FURTHER: Final = 10
"""(`image_take.c` has it, too.) Who goes through a log has threads that hand over to each other all the time.
Beside such a session at 5 a thread of a primary that was woken up waited for up to 40 ms. At 19 a joiner that
others left nothing to could not even answer its group, and was removed from it, again and again."""
BESIDE: Final = 6
"""Of a backup that keeps up: a quarter of what its primary gets, where both want all."""
FORWARD: Final = 0
"""What a new session has."""
PATIENCE_NS: Final = 2 * SECOND
"""A replica that has not caught up after twice as long would not catch up from behind."""
STARVED_NS: Final = 150 * MS
"""Who is tended that late gets too little where it is. A replica tends itself ten times a second at least;
one that does not for a second (`pulse_bound_ms`) is suspected."""
NEEDED: Final = (PROPOSING, RECOVERING, PRIMARY)
_LINE_BYTES = 128
_STATUS_BYTES: Final = 16_384
_CAP_SYS_ADMIN: Final = 21
_getsid = posix.getsid


def step_back(pid: int = 0, nice: int = BACK) -> bool:
    """The session of this process, or of another one. False: it is where it was. That is no failure: it
    takes its share then, as everybody does."""
    try:
        if _getsid(pid) != (pid or originals.getpid()):
            return False  # others are in that session, too
        _set(pid, nice)
    except OSError:
        return False
    return True


def place() -> int:
    """The nice value of this process's session."""
    try:
        fd = originals.open_fd(_path(0), posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return FORWARD  # there are no autogroups
    try:
        words = originals.read(fd, _LINE_BYTES).split()  # /autogroup-27 nice 10; nothing: it is in none
        return int(words[-1]) if words else FORWARD
    finally:
        originals.close(fd)


class Behind:
    """A session that is behind, as long as it is tended: further back at first, then nearer."""

    def __init__(self, pid: int = 0) -> None:
        self._pid = pid
        self._nice = FORWARD
        self._tended_ns = originals.monotonic_ns()
        self._nearer_ns = self._tended_ns + PATIENCE_NS
        self.tend()

    def tend(self) -> None:
        """Without rights it may be changed once in 100 ms, on the whole host: so it is tried again."""
        now_ns = originals.monotonic_ns()
        if now_ns - self._tended_ns > STARVED_NS:
            self._nearer_ns = now_ns
        self._tended_ns = now_ns
        wanted = FURTHER if now_ns < self._nearer_ns else BACK
        if wanted != self._nice and step_back(self._pid, wanted):
            self._nice = wanted


class Priority:
    """Of a replica process, in one life. Called with the driver's lock held."""

    def __init__(self, say: Callable[[str], None]) -> None:
        nice = place()
        self.is_back = nice > FORWARD
        """It is not in front."""
        self._say = say
        self._why = self._refused = ""
        self._began_ns = originals.monotonic_ns()
        self._in_front_until_ns = 0
        self._joins = self.is_back
        self._may_step_beside = is_privileged()
        self._behind = Behind() if nice >= BACK else None

    def take(self, record: Record) -> None:
        """Of what happens to it: it may be needed at once. One that is beside comes forward as a primary:
        to tell the kernel takes as long as a good part of a change."""
        if isinstance(record, RoleChanged):
            is_needed = record.role in (NEEDED if self._joins else (PRIMARY,))
        else:
            is_needed = self._joins and isinstance(record, Suspected)
        if self.is_back and is_needed:
            self._come_forward("it is needed")

    def tend(self, *, caught_up: bool, follows: bool = False) -> None:
        """`follows`: it is a backup, and nobody waits for what it does."""
        if self._joins:
            self._tend_joiner(caught_up)
        elif self.is_back and not (caught_up and follows and not self._why):
            self._come_forward(self._why or ("it is behind" if follows else "it follows nobody"))
        elif not self.is_back and caught_up and follows and self._may_step_beside:
            self._step_beside()

    def _step_beside(self) -> None:
        now_ns = originals.monotonic_ns()
        if now_ns >= self._in_front_until_ns:
            self.is_back = step_back(nice=BESIDE)
            self._in_front_until_ns = now_ns + PATIENCE_NS

    def _tend_joiner(self, caught_up: bool) -> None:
        if self._why or caught_up:
            self._come_forward(self._why or "it has caught up")
        elif originals.monotonic_ns() - self._began_ns > 2 * PATIENCE_NS:
            self._come_forward("it has not caught up")
        elif self._behind is not None:
            self._behind.tend()

    def start_anew(self, *, as_image: bool) -> None:
        """Its next life joins again."""
        step_back(nice=BACK if as_image and self._behind is not None else NEARER)

    def _come_forward(self, why: str) -> None:
        """Or at the next `tend`: without rights it may be changed once in 100 ms, on the whole host."""
        try:
            _set(0, FORWARD)
        except OSError as error:
            self._why = why
            if not isinstance(error, BlockingIOError) and str(error) != self._refused:
                self._refused = str(error)
                self._say(f"it stepped back, and cannot come forward: {error}")
        else:
            now_ns = originals.monotonic_ns()
            if self._joins:
                self._say(f"comes forward after {(now_ns - self._began_ns) / SECOND:.2f} s: {why}")
            self.is_back = self._joins = False
            self._why = ""
            self._in_front_until_ns = now_ns + PATIENCE_NS


def is_privileged() -> bool:
    """It may change its place at any time."""
    with suppress(OSError, ValueError):
        fd = originals.open_fd("/proc/self/status", posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            _, _, behind = originals.read(fd, _STATUS_BYTES).partition(b"CapEff:")
        finally:
            originals.close(fd)
        return bool(int(behind.split()[0], 16) & 1 << _CAP_SYS_ADMIN) if behind else False
    return False


def _set(pid: int, nice: int) -> None:
    fd = originals.open_fd(_path(pid), posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        originals.write(fd, str(nice).encode())
    finally:
        originals.close(fd)


def _path(pid: int) -> str:
    return f"/proc/{pid or 'self'}/autogroup"
