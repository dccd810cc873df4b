"""Virtual descriptors: numbers that are alike at all replicas, and what they stand for.

A *description* is what the system calls an open file description: duplicates of a descriptor share it, and
it ends with the last of them. Numbers are given from FIRST on, lowest free first, so they follow from the
program alone. Under each lies a real placeholder (a duplicate of an unconnected socket or of an unused
pipe), so that fstat, fcntl and the like find something of the right kind, and no real file ever gets that
number.
"""

from __future__ import annotations

import _socket
import errno
import fcntl
import heapq
import posix
import resource
import weakref
from collections.abc import Sequence
from typing import Protocol

from llft.core.determinizer.operations import Failure
from llft.errors import InvariantError, UnsupportedOperationError
from llft.interpose import collecting, passage
from llft.interpose.monitor import inside

FIRST = 1000
_PLACEHOLDERS_FROM = 900
_NativeSocket = _socket.socket
_native_fcntl = fcntl.fcntl
_native_close = posix.close
_native_pipe = posix.pipe
_strerror = posix.strerror


def system_error(number: int) -> OSError:
    """The right subclass comes by itself."""
    return OSError(number, _strerror(number))


def failed(failure: Failure) -> OSError:
    return system_error(getattr(errno, failure.name))


def would_block() -> OSError:
    return system_error(errno.EAGAIN)


class Watched:
    """Something whose state other threads of the program change. They are told to look again."""

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        self.watchers: dict[int, None] = {}

    def changed(self) -> None:
        for thread in list(self.watchers):
            passage.unpark(thread)


class Asked:
    """What the core is asked in one Select."""

    __slots__ = ("reading", "writing")

    def __init__(self) -> None:
        self.reading: dict[int, None] = {}
        self.writing: dict[int, None] = {}

    def __bool__(self) -> bool:
        return bool(self.reading or self.writing)


class Answered:
    __slots__ = ("readable", "writable")

    def __init__(self, result: Sequence[int]) -> None:
        self.readable = {fd for fd in result if fd >= 0}
        self.writable = {-fd for fd in result if fd < 0}


Ready = tuple[bool, bool]
"""(readable, writable)."""


class Description:
    """`probe` says what is ready without asking the core, and adds what the core is to be asked;
    `settle` says what is ready after its answer, and goes on with what the answer makes possible."""

    is_socket = True

    def __init__(self) -> None:
        self.references = 0
        self.nonblocking = False

    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        raise NotImplementedError

    def settle(self, reading: bool, writing: bool, answered: Answered) -> Ready:
        return self.probe(reading, writing, Asked())

    def watched(self) -> tuple[Watched, ...]:
        return ()

    def receive(self, limit: int, timeout_ns: int, peek: bool = False) -> bytes:
        raise NotImplementedError

    def send(self, data: bytes, timeout_ns: int) -> int:
        raise NotImplementedError

    def close(self) -> None:
        """The last descriptor is gone."""


class Table:
    def __init__(self) -> None:
        self.descriptions: dict[int, Description] = {}
        self._free: list[int] = []
        self._next = FIRST
        self._socket_placeholder = -1
        self._pipe_placeholder = -1

    def prepare(self) -> None:
        """Placeholders to duplicate, and as many descriptors as the system allows."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and hard < FIRST + 100:
            raise UnsupportedOperationError(
                "open_files_limit", f"allow {FIRST + 1000} open files", limit=hard
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._socket_placeholder = _high(_NativeSocket().detach())
        reading, writing = _native_pipe()
        self._pipe_placeholder = _high(reading)
        _native_close(writing)

    def remake(self) -> None:
        """In a process restored from an image: the same numbers, with new placeholders under them."""
        sockets, pipes = self._socket_placeholder, self._pipe_placeholder
        self.prepare()
        if (self._socket_placeholder, self._pipe_placeholder) != (sockets, pipes):
            raise InvariantError("descriptor_taken", number=sockets, got=self._socket_placeholder)
        for number, description in self.descriptions.items():
            placeholder = sockets if description.is_socket else pipes
            got = _native_fcntl(placeholder, fcntl.F_DUPFD_CLOEXEC, number)
            if got != number:
                raise InvariantError("descriptor_taken", number=number, got=got)

    def add(self, description: Description) -> int:
        with inside:
            return self._add(description)

    def _add(self, description: Description) -> int:
        number = heapq.heappop(self._free) if self._free else self._next
        placeholder = self._socket_placeholder if description.is_socket else self._pipe_placeholder
        try:
            got = _native_fcntl(placeholder, fcntl.F_DUPFD_CLOEXEC, number)
        except OSError as error:
            raise UnsupportedOperationError(
                "descriptors_exhausted", "allow more open files", number=number
            ) from error
        if got != number:
            raise InvariantError("descriptor_taken", number=number, got=got)
        if number == self._next:
            self._next += 1
        description.references += 1
        self.descriptions[number] = description
        return number

    def get(self, number: int) -> Description | None:
        return self.descriptions.get(number)

    def remove(self, number: int) -> None:
        if collecting.is_collecting():
            collecting.tell_left_open(number)
            return
        with inside:
            self._remove(number)

    def _remove(self, number: int) -> None:
        description = self.descriptions.pop(number)
        _native_close(number)
        heapq.heappush(self._free, number)
        forget_descriptor(number)
        description.references -= 1
        if not description.references:
            description.close()


def _high(number: int) -> int:
    """Out of the way of the program's own files, whose numbers are better alike."""
    moved = _native_fcntl(number, fcntl.F_DUPFD_CLOEXEC, _PLACEHOLDERS_FROM)
    _native_close(number)
    return moved


class Forgetting(Protocol):
    def forget(self, number: int) -> None: ...


_forgetting: dict[int, weakref.ref[Forgetting]] = {}


def on_forget(own_number: int, forgetting: Forgetting) -> None:
    """It is told of every descriptor that is closed, until its own is."""
    _forgetting[own_number] = weakref.ref(forgetting)


def forget_descriptor(number: int) -> None:
    """The system takes a closed descriptor out of every epoll set."""
    _forgetting.pop(number, None)
    for reference in list(_forgetting.values()):
        forgetting = reference()
        if forgetting is not None:
            forgetting.forget(number)


def number_of(file: object) -> int:
    """A descriptor's number, of a number or of an object that has one."""
    number = file if isinstance(file, int) else file.fileno()  # type: ignore[attr-defined]
    if not isinstance(number, int):
        raise TypeError("fileno() returned a non-integer")
    if number < 0:
        raise ValueError(f"file descriptor cannot be a negative integer ({number})")
    return number


table = Table()
