"""The genuine functions of the C modules, saved before anything is patched.

Whatever of ours runs inside an interposed interpreter (driver, transport, journal) uses these and never the
modules' attributes, which belong to the program by then. This module must be imported first, and imports only
what is built into the interpreter.
"""

from __future__ import annotations

import _socket
import _thread
import posix
import select
import time

allocate_lock = _thread.allocate_lock
get_ident = _thread.get_ident
start_new_thread = _thread.start_new_thread
thread_local = _thread._local

monotonic_ns = time.monotonic_ns
time_ns = time.time_ns
sleep = time.sleep
clock_gettime_ns = time.clock_gettime_ns

Socket = _socket.socket
getaddrinfo = _socket.getaddrinfo
epoll = select.epoll
poll = select.poll

getpid = posix.getpid
urandom = posix.urandom
read = posix.read
write = posix.write
close = posix.close
