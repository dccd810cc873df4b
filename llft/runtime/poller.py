"""Waiting for any of several descriptors, by any of several threads, and being woken."""

from __future__ import annotations

import fcntl
import posix
import select
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from llft import originals

AT_ONCE: Final = 128
"""Descriptors told by one call: room is taken for so many each time. The others are told by the next."""
FIRST_FD: Final = 600
"""Our own descriptors stay out of the way of the program's, whose numbers are alike at all replicas."""


class Poller:
    def __init__(self) -> None:
        self._epoll = _raised_epoll()
        self._urgent = _raised_epoll()
        low = originals.eventfd(0, posix.EFD_NONBLOCK | posix.EFD_CLOEXEC)
        self._wake_fd = raise_fd(low)
        self._watched: dict[int, None] = {}
        self._pressing: dict[int, None] = {}
        self._ready: set[int] = set()
        self.woken = False
        """Whether somebody called `wake` for what `poll` returned last."""
        self.awaited = False
        """The wake is for a thread that waits without `poll` (`dialogues`): nobody takes it away."""
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._urgent.register(self._wake_fd, select.EPOLLIN)

    @property
    def fileno(self) -> int:
        """Of what tells of all descriptors: as many as are watched, and the one by which others wake."""
        return self._epoll.fileno()

    @property
    def urgent_fileno(self) -> int:
        return self._urgent.fileno()

    def abandon(self) -> None:
        """In a process restored from an image: no number is open."""
        self._epoll.close()
        self._urgent.close()

    def watch(self, filenos: Iterable[int], urgent: Iterable[int] = ()) -> None:
        """These, and no others. The urgent ones are heard by who rests, too."""
        pressing = dict.fromkeys(urgent)
        wanted = dict.fromkeys(filenos) | pressing
        _change(self._epoll, self._watched, wanted)
        _change(self._urgent, self._pressing, pressing)
        self._watched, self._pressing = wanted, pressing

    def rest(self, wait_ns: int) -> None:
        """Let more arrive before it is served, unless something urgent comes."""
        if self._urgent.poll(wait_ns / 1e9):
            self.poll(0)

    def poll(self, wait_ns: int) -> bool:
        """True: something is there to be served, or somebody called `wake`."""
        ready = self._epoll.poll(wait_ns / 1e9, AT_ONCE)
        self.woken = False
        for fd, _ in ready:
            if fd == self._wake_fd:
                self.woken = True
                if not self.awaited:
                    self._drain_wakes()
            else:
                self._ready.add(fd)
        return bool(ready)

    def take_ready(self) -> set[int]:
        """What was found readable since this was asked last. Whoever takes and does not read is told
        again by the next `poll`."""
        ready, self._ready = self._ready, set()
        return ready

    def wake(self) -> None:
        originals.eventfd_write(self._wake_fd, 1)

    def _drain_wakes(self) -> None:
        with suppress(BlockingIOError):  # another thread did
            originals.eventfd_read(self._wake_fd)
        if self.awaited:
            self.wake()  # since it was looked at: what was taken away was for the other thread


def _change(epoll: select.epoll, watched: dict[int, None], wanted: dict[int, None]) -> None:
    if wanted == watched:
        return
    for fd in [fd for fd in watched if fd not in wanted]:
        with suppress(OSError):  # it was closed, and is out of the set by that
            epoll.unregister(fd)
    for fd in wanted:
        if fd not in watched:
            epoll.register(fd, select.EPOLLIN)


def _raised_epoll() -> select.epoll:
    low = originals.epoll()
    try:
        return originals.epoll.fromfd(originals.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD))
    finally:
        low.close()


def raise_fd(fd: int) -> int:
    """Move a descriptor of ours to a high number, closed on exec."""
    try:
        return originals.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
    finally:
        originals.close(fd)
