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
from collections.abc import Iterable
from typing import Any

from llft.core.determinizer.operations import Result
from llft.interpose import counting, passage
from llft.interpose.descriptors import Asked, Description, Ready, number_of, on_forget, system_error, table
from llft.interpose.interests import READING, WRITING, Event, Interests, description_of, has_company
from llft.interpose.monitor import entered
from llft.interpose.reception import reception
from llft.interpose.refusing import RefusedError
from llft.interpose.streams import Local, Remote
from llft.interpose.tcp import TcpSocket
from llft.interpose.waiting import Interest, go_on, wait

POLLIN, POLLOUT, POLLPRI, POLLNVAL = _select.POLLIN, _select.POLLOUT, _select.POLLPRI, _select.POLLNVAL
EPOLLET, EPOLLONESHOT = _select.EPOLLET, _select.EPOLLONESHOT
_native_fstat = posix.fstat


@entered
def select(
    rlist: Iterable[Any], wlist: Iterable[Any], xlist: Iterable[Any], timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    reading, writing = list(rlist), list(wlist)
    list(xlist)  # nothing exceptional happens on a virtual connection
    interests = [(description_of(number_of(file)), True, False) for file in reading]
    interests += [(description_of(number_of(file)), False, True) for file in writing]
    found = wait(interests, -1 if timeout is None else _nanoseconds(timeout, 1e9))
    return _files([*reading, *writing], len(reading), found)


def _files(
    files: list[Any], reading_count: int, found: list[Ready]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Of those that are ready: first those to be read, then those to be written."""
    pairs = list(zip(files, found, strict=True))
    readable = [file for file, ready in pairs[:reading_count] if ready[0]]
    writable = [file for file, ready in pairs[reading_count:] if ready[1]]
    return readable, writable, []


def _select_on(
    files: list[Any], reading_count: int, interests: list[Interest], answer: Result, timeout_ns: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """A select that was begun in C."""
    return _files(files, reading_count, go_on(interests, answer, timeout_ns))


def _nanoseconds(timeout: float, unit: float) -> int:
    if timeout < 0:
        raise ValueError("timeout must be non-negative")
    value = int(timeout * unit)
    return value if value or not timeout else 1


class Poll:
    def __init__(self) -> None:
        self._interests = Interests(may_plan=False)

    @entered
    def register(self, fd: Any, eventmask: int = POLLIN | POLLPRI | POLLOUT, /) -> None:
        self._interests.put(number_of(fd), eventmask)

    @entered
    def modify(self, fd: Any, eventmask: int, /) -> None:
        if number_of(fd) not in self._interests.masks:
            raise system_error(errno.ENOENT)
        self._interests.put(number_of(fd), eventmask)

    @entered
    def unregister(self, fd: Any, /) -> None:
        self._interests.drop(number_of(fd))

    @entered
    def poll(self, timeout: float | None = None, /) -> list[Event]:
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
        self._interests = Interests(may_plan=True)
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
        if number in self._interests.masks:
            self._interests.drop(number)

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
        description_of(number)
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
        self._interests.drop(number)

    @entered
    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[Event]:
        masks = self._open()
        endless = timeout is None or timeout < 0
        events = self._interests.wait(-1 if endless else _nanoseconds(timeout or 0, 1e9))
        if maxevents > 0:
            events = events[:maxevents]
        for number, _ in events:
            if masks[number] & EPOLLONESHOT:
                self._interests.put(number, masks[number] & ~(READING | WRITING))
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


_in_dialogues = counting.select_for(
    *(TcpSocket, Remote, Local, table.descriptions, reception.hall),
    *(has_company, passage.select_on, Interests.go_on, _select_on, select, Epoll),
)


def replacements() -> dict[str, dict[str, object]]:
    return {"select": {"select": _in_dialogues or select, "poll": Poll, "epoll": Epoll}}
