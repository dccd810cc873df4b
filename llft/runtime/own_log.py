"""The replica's log, on a descriptor of our own.

`sys.stderr` is the program's: it may have put an object there whose `write` takes locks, ticks, or calls the
port. If the runtime ran that, in the midst of a step, it would wait for the driver's lock with the driver's
lock in its hand; and what it counts it would count at one replica only. Descriptor 2 is the program's too: it
may close it, or direct it elsewhere. So a duplicate is made before the program begins.
"""

from __future__ import annotations

import fcntl

from llft import originals
from llft.runtime.poller import FIRST_FD

_fd = 2


def keep() -> None:
    """From now on the log is where descriptor 2 leads at this moment."""
    global _fd
    _fd = originals.fcntl(2, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)


def write(text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        try:
            data = data[originals.write(_fd, data) :]
        except OSError:
            return  # a full disk, say: there is no other place to tell it, and it stops no replica
