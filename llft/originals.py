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

allocate_lock = _thread.allocate_lock
get_ident = _thread.get_ident
start_new_thread = _thread.start_new_thread
thread_local = _thread._local

monotonic_ns = time.monotonic_ns
time_ns = time.time_ns
sleep = time.sleep
clock_gettime_ns = time.clock_gettime_ns

Socket = _socket.socket
accept: Callable[[Socket], tuple[int, object]] = _socket.socket._accept  # type: ignore[attr-defined]
"""A descriptor and an address; the annotations of the standard library do not know it."""
getaddrinfo = _socket.getaddrinfo
fcntl = _fcntl.fcntl
epoll = select.epoll
poll = select.poll

getpid = posix.getpid
urandom = posix.urandom
pipe = posix.pipe
read = posix.read
write = posix.write
close = posix.close
eventfd = posix.eventfd
eventfd_read = posix.eventfd_read
eventfd_write = posix.eventfd_write
unlink = posix.unlink
exit_now = posix._exit
posix_spawn = posix.posix_spawn
waitpid = posix.waitpid
kill = posix.kill
execve = posix.execve
chdir = posix.chdir
umask = posix.umask
listdir = posix.listdir
