"""The genuine functions of the C modules, saved before anything is patched.

Whatever of ours runs inside an interposed interpreter (driver, transport, journal) uses these and never the
modules' attributes, which belong to the program by then. This module must be imported first, and imports only
what is built into the interpreter.
"""

from __future__ import annotations

import _socket
import _thread
import fcntl as _fcntl
import posix
import select
import time
from collections.abc import Callable
from typing import Final

allocate_lock: Final = _thread.allocate_lock
get_ident: Final = _thread.get_ident
start_new_thread: Final = _thread.start_new_thread
thread_local: Final = _thread._local

monotonic_ns: Final = time.monotonic_ns
time_ns: Final = time.time_ns
sleep: Final = time.sleep
clock_gettime_ns: Final = time.clock_gettime_ns

Socket = _socket.socket
accept: Callable[[Socket], tuple[int, object]] = _socket.socket._accept  # type: ignore[attr-defined]
"""A descriptor and an address; the annotations of the standard library do not know it."""
getaddrinfo: Final = _socket.getaddrinfo
fcntl: Final = _fcntl.fcntl
epoll: Final = select.epoll
poll: Final = select.poll

getpid: Final = posix.getpid
urandom: Final = posix.urandom
pipe: Final = posix.pipe
read: Final = posix.read
write: Final = posix.write
close: Final = posix.close
eventfd: Final = posix.eventfd
eventfd_read: Final = posix.eventfd_read
eventfd_write: Final = posix.eventfd_write
unlink: Final = posix.unlink
rename: Final = posix.rename
link: Final = posix.link
mkdir: Final = posix.mkdir
open_fd: Final = posix.open
exit_now: Final = posix._exit
posix_spawn: Final = posix.posix_spawn
waitpid: Final = posix.waitpid
kill: Final = posix.kill
execve: Final = posix.execve
chdir: Final = posix.chdir
umask: Final = posix.umask
listdir: Final = posix.listdir
