"""select, poll and epoll over virtual descriptors. `selectors` and asyncio follow by themselves.

Events are reported in the order of registration, so programs serve them alike. Real descriptors (terminals,
inherited pipes) are refused, for nobody orders what they do; regular files are always ready, as the system
says. Edge-triggered epoll is refused: it would need to know of every arrival, not only whether there is
something.
"""

from __future__ import annotations

import errno
import posix
import select as _select
import stat
from collections.abc import Iterable
from typing import Any

from llft.interpose import passage, threads
from llft.interpose.descriptors import (
    Asked,
    Description,
    Ready,
    Watched,
    number_of,
    on_forget,
    system_error,
    table,
)
from llft.interpose.locks import interruptible
from llft.interpose.monitor import entered
from llft.interpose.refusing import RefusedError
from llft.interpose.waiting import Interest, wait

POLLIN, POLLOUT, POLLPRI, POLLNVAL = _select.POLLIN, _select.POLLOUT, _select.POLLPRI, _select.POLLNVAL
EPOLLET, EPOLLONESHOT = _select.EPOLLET, _select.EPOLLONESHOT
_READING = POLLIN | _select.POLLRDNORM
_WRITING = POLLOUT | _select.POLLWRNORM
_native_fstat = posix.fstat


class _AlwaysReady(Description):
    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        return reading, writing


_ALWAYS_READY = _AlwaysReady()


def _description(number: int) -> Description:
    found = table.get(number)
    if found is not None:
        return found
    if stat.S_ISREG(_native_fstat(number).st_mode):
        return _ALWAYS_READY
    raise RefusedError(f"waiting for descriptor {number}", "only virtual sockets and pipes can be waited for")


@entered
def select(
    rlist: Iterable[Any], wlist: Iterable[Any], xlist: Iterable[Any], timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    reading, writing = list(rlist), list(wlist)
    list(xlist)  # nothing exceptional happens on a virtual connection
    interests = [(_description(number_of(file)), True, False) for file in reading]
    interests += [(_description(number_of(file)), False, True) for file in writing]
    found = wait(interests, -1 if timeout is None else _nanoseconds(timeout, 1e9))
    readable = [file for file, ready in zip(reading, found, strict=False) if ready[0]]
    writable = [file for file, ready in zip(writing, found[len(reading) :], strict=True) if ready[1]]
    return readable, writable, []


def _nanoseconds(timeout: float, unit: float) -> int:
    if timeout < 0:
        raise ValueError("timeout must be non-negative")
    value = int(timeout * unit)
    return value if value or not timeout else 1


class _Interests(Watched):
    """Numbers and masks, in the order of registration."""

    def __init__(self) -> None:
        super().__init__()
        self.masks: dict[int, int] = {}
        self.version = 0

    def add(self, number: int, mask: int) -> None:
        """Whoever waits already waits for this one too, from now on."""
        self.masks[number] = mask
        self.version += 1
        self.changed()

    def wait(self, timeout_ns: int) -> list[tuple[int, int]]:
        while True:
            version = self.version
            events = self._wait(timeout_ns)
            if events or version == self.version or timeout_ns >= 0:
                return events

    def _wait(self, timeout_ns: int) -> list[tuple[int, int]]:
        numbers = [number for number, mask in self.masks.items() if mask & (_READING | _WRITING)]
        interests: list[Interest] = [
            (_description(number), bool(self.masks[number] & _READING), bool(self.masks[number] & _WRITING))
            for number in numbers
        ]
        # Without other threads and signals nobody could add to the set meanwhile.
        if passage.ordered or threads.count() or interruptible():
            interests.append((_Additions(self), True, False))
        found = wait(interests, timeout_ns)
        events = []
        for number, (readable, writable) in zip(numbers, found, strict=False):
            mask = self.masks.get(number, 0) & ((_READING if readable else 0) | (_WRITING if writable else 0))
            if mask:
                events.append((number, mask))
        return events


class _Additions(Description):
    """Ready when something was added to a set since."""

    def __init__(self, interests: _Interests) -> None:
        super().__init__()
        self._interests = interests
        self._version = interests.version

    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        return self._interests.version != self._version, False

    def watched(self) -> tuple[Watched, ...]:
        return (self._interests,)


class Poll:
    def __init__(self) -> None:
        self._interests = _Interests()

    @entered
    def register(self, fd: Any, eventmask: int = POLLIN | POLLPRI | POLLOUT, /) -> None:
        self._interests.masks[number_of(fd)] = eventmask

    @entered
    def modify(self, fd: Any, eventmask: int, /) -> None:
        if number_of(fd) not in self._interests.masks:
            raise system_error(errno.ENOENT)
        self._interests.masks[number_of(fd)] = eventmask

    @entered
    def unregister(self, fd: Any, /) -> None:
        del self._interests.masks[number_of(fd)]

    @entered
    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        masks = self._interests.masks
        gone = [(number, POLLNVAL) for number in masks if not _exists(number)]
        if gone:
            return gone
        endless = timeout is None or timeout < 0
        return self._interests.wait(-1 if endless else _nanoseconds(timeout or 0, 1e6))


def _exists(number: int) -> bool:
    if table.get(number) is not None:
        return True
    try:
        _native_fstat(number)
    except OSError:
        return False
    return True


class _EpollDescription(Description):
    is_socket = False

    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        raise RefusedError("waiting for an epoll object", "wait for the descriptors in it")


class Epoll:
    def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
        self._interests = _Interests()
        self._number = table.add(_EpollDescription())
        on_forget(self._number, self)

    @classmethod
    def fromfd(cls, fd: int) -> Epoll:
        raise RefusedError("epoll.fromfd", "keep the epoll object")

    @property
    def closed(self) -> bool:
        return self._number < 0

    def _open(self) -> dict[int, int]:
        if self._number < 0:
            raise ValueError("I/O operation on closed epoll object")
        return self._interests.masks

    def forget(self, number: int) -> None:
        self._interests.masks.pop(number, None)

    def fileno(self) -> int:
        self._open()
        return self._number

    def close(self) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            table.remove(number)

    @entered
    def register(self, fd: Any, eventmask: int = POLLIN | POLLPRI | POLLOUT) -> None:
        masks, number = self._open(), number_of(fd)
        if number in masks:
            raise system_error(errno.EEXIST)
        _description(number)
        self._interests.add(number, _checked(eventmask))

    @entered
    def modify(self, fd: Any, eventmask: int) -> None:
        masks, number = self._open(), number_of(fd)
        if number not in masks:
            raise system_error(errno.ENOENT)
        self._interests.add(number, _checked(eventmask))

    @entered
    def unregister(self, fd: Any) -> None:
        masks, number = self._open(), number_of(fd)
        if number not in masks:
            raise system_error(errno.ENOENT)
        del masks[number]

    @entered
    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        masks = self._open()
        endless = timeout is None or timeout < 0
        events = self._interests.wait(-1 if endless else _nanoseconds(timeout or 0, 1e9))
        if maxevents > 0:
            events = events[:maxevents]
        for number, _ in events:
            if masks[number] & EPOLLONESHOT:
                masks[number] &= ~(_READING | _WRITING)
        return events

    def __del__(self) -> None:
        if getattr(self, "_number", -1) >= 0 and passage.current():
            self.close()

    def __enter__(self) -> Epoll:
        self._open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _checked(eventmask: int) -> int:
    if eventmask & EPOLLET:
        raise RefusedError("EPOLLET", "use level-triggered epoll, or another loop of the framework")
    return eventmask


def replacements() -> dict[str, dict[str, object]]:
    return {"select": {"select": select, "poll": Poll, "epoll": Epoll}}
