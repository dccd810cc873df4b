"""The Python side of the lifeline (`lifeline.c`): hold one's own, watch those of the peers on this host. A
gateway has none; it watches the replicas' so that it comes first while clients wait for a new primary.

A line is a file in the run directory, named after its holder's birth. Replicas of one `llft run` share that
directory; those that do not (another host, another run) are watched by TCP alone, as all are
(`runtime.liveness`): the lifeline only brings the same news sooner.

A line also says where its holder's number is to be looked up: in which pid namespace, and when that process
began. So another one there can be asked about the holder (`state`, D-73), and neither a number that was given
again nor one of another namespace is taken for it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from contextlib import suppress
from typing import Final

from llft import originals
from llft.identifiers import BirthId
from llft.runtime.native.build import build
from llft.runtime.poller import raise_fd

_TOKEN = struct.Struct("=Q")
_MOST_AT_ONCE = 64
_PREFIX = "life-"
_PLACE = ctypes.c_uint64 * 2
_STAT_BYTES = 1024
STOPPED: Final = b"T"
"""By a signal. One that a debugger holds for the moment ("t") is none: it goes on at every step."""
LIVING: Final = (b"R", b"S", b"D")
"""It runs, or would if it were let, or waits for something. So does one that is frozen, as it says."""
_STATE, _BEGAN = 0, 19
"""Of the words after a process's name in its `stat` (proc(5): 3 and 22)."""


class DeathWatch:
    """Of processes that hold lines. `fileno` is readable when one of them has died."""

    def __init__(self, directory: str, host_id: int) -> None:
        self._directory = directory
        self._host_id = host_id
        self._watched: dict[int, BirthId] = {}
        self._began: dict[BirthId, int] = {}
        """When, of those whose numbers mean the same here."""
        self._count = 0
        self.hurried_ns = 0
        """Since when the thread that listens comes first; 0: it does not."""
        self._library, self.missing = _load()
        self._namespace, self._own_began = _own_place()
        read_end, write_end = originals.pipe()
        self._told, self._tell = (_quiet(raise_fd(end)) for end in (read_end, write_end))

    def fileno(self) -> int:
        return self._told

    def watch(self, birth_id: BirthId) -> bool:
        """False: there is no line of that process here; maybe there will be."""
        if self._library is None or birth_id.host_id != self._host_id:
            return False
        path, place = os.fsencode(self._path_of(birth_id)), _PLACE()
        self._count += 1
        if self._library.lifeline_watch(path, ctypes.c_uint64(self._count), self._tell, place):
            return False
        self._watched[self._count] = birth_id
        namespace, began = place
        if began and namespace == self._namespace:
            self._began[birth_id] = began
        return True

    def watch_all(self) -> None:
        """Whoever holds a line in the directory and is not watched yet."""
        watched = dict.fromkeys(self._watched.values())
        try:
            names = originals.listdir(self._directory)
        except OSError:
            return  # somebody has removed it
        for name in names:
            _, *numbers = name.split("-")
            if name.startswith(_PREFIX) and len(numbers) == 2 and all(map(str.isdecimal, numbers)):
                birth_id = BirthId(self._host_id, *map(int, numbers))
                if birth_id not in watched:
                    self.watch(birth_id)

    def state(self, birth_id: BirthId) -> bytes:
        """What the kernel says that it does now, as a letter; none: this cannot be known here."""
        began, found = self._began.get(birth_id), _look_up(birth_id.pid)
        return found[0] if found is not None and found[1] == began else b""

    def listen(self) -> None:
        """The calling thread is the one that is to be first when somebody has died, until it rests."""
        if self._library is not None:
            self._library.lifeline_listen()

    def rest(self) -> None:
        """The same thread."""
        self.hurried_ns = 0
        if self._library is not None:
            self._library.lifeline_rest()

    def take_dead(self) -> list[BirthId]:
        """Those whose kernel has told. Their files are nobody's any more."""
        try:
            told = originals.read(self._told, _MOST_AT_ONCE * _TOKEN.size)
        except BlockingIOError:
            return []
        self.hurried_ns = originals.monotonic_ns()
        dead = [self._watched.pop(token) for (token,) in _TOKEN.iter_unpack(told)]
        for birth_id in dead:
            self._began.pop(birth_id, None)
            _unlink(self._path_of(birth_id))
        return dead

    def _path_of(self, birth_id: BirthId) -> str:
        return f"{self._directory}/{_PREFIX}{birth_id.pid}-{birth_id.start_ns}"


class Lifeline(DeathWatch):
    """One process's own, and those of its peers."""

    def __init__(self, directory: str, birth_id: BirthId) -> None:
        super().__init__(directory, birth_id.host_id)
        self._path = self._path_of(birth_id)
        if self._library is not None:
            place = _PLACE(self._namespace, self._own_began)
            failed = self._library.lifeline_hold(os.fsencode(self._path), place)
            self.missing = os.strerror(failed) if failed else ""

    def close(self) -> None:
        """This life ends of itself: its file goes. The line is let go by the kernel."""
        if self._library is not None:
            self._library.lifeline_let_go()
        _unlink(self._path)


def _load() -> tuple[ctypes.CDLL | None, str]:
    path, reason = build(os.environ)
    if not path:
        return None, reason
    try:
        return ctypes.CDLL(path), ""
    except OSError as error:
        return None, str(error)


def _own_place() -> tuple[int, int]:
    """The number of this pid namespace, and when this process began; (0, 0) where /proc does not say."""
    found = _look_up("self")
    try:
        return (os.stat("/proc/self/ns/pid").st_ino, found[1]) if found else (0, 0)
    except OSError:
        return 0, 0


def _look_up(pid: int | str) -> tuple[bytes, int] | None:
    """The state of a process, and when it began, in ticks since the host did."""
    try:
        fd = originals.open_fd(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = originals.read(fd, _STAT_BYTES)
    except OSError:
        return None  # it has ended meanwhile
    finally:
        originals.close(fd)
    words = text[text.rfind(b")") + 1 :].split()
    return (words[_STATE], int(words[_BEGAN])) if len(words) > _BEGAN else None


def _quiet(fd: int) -> int:
    originals.fcntl(fd, fcntl.F_SETFL, originals.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
    return fd


def _unlink(path: str) -> None:
    with suppress(OSError):  # it is gone, or must stay: nobody depends on it
        originals.unlink(path)
