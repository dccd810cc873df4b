"""Which of the parked threads are worth trying again, at a primary.

With thousands of connections as many threads are parked, and a datagram concerns one of them. So the
connections say which descriptors were *touched* since they were asked last (`Connections.touched`), and only
threads are tried that wait for one of those, whose time has come, or that have not been tried yet.
Laws:

* Trying all parked threads would wake the same ones, in the same order: first parked, first woken. What a
  thread's own operation touches is seen by those that parked later at once, by earlier ones the next time.
* What a thread waits for stays noted when it is woken: most threads wait for the same again. Whether
  it is parked, the engine's `parked` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from llft.core.determinizer.operations import Accept, Connect, Operation, Receive, Select, Send
from llft.core.determinizer.outside import Outside
from llft.core.determinizer.sockets import LISTENER
from llft.identifiers import ThreadId


class Waiters:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._touched_since = outside.connections.touched
        self._entered_count = 0
        self._position: dict[ThreadId, int] = {}
        """The order in which the threads were parked."""
        self._fds: dict[ThreadId, tuple[int, ...]] = {}
        self._by_fd: dict[int, dict[ThreadId, None]] = {}
        self._untried: dict[ThreadId, None] = {}

    def enter(self, thread: ThreadId, operation: Operation, *, tried: bool) -> None:
        """The thread is parked; if it was tried, it cannot go on as things are now."""
        self._entered_count += 1
        self._position[thread] = self._entered_count
        if tried:
            self.wait_for(thread, operation)
        else:
            self._untried[thread] = None

    def wait_for(self, thread: ThreadId, operation: Operation) -> None:
        """It was tried: it cannot go on before one of its descriptors is touched, or its time has come."""
        fds = self._awaited(thread, operation)
        known = self._fds.get(thread, ())
        if fds == known:
            return
        self._forget_fds(thread, known)
        self._fds[thread] = fds
        by_fd = self._by_fd
        for fd in fds:
            threads = by_fd.get(fd)
            if threads is None:
                by_fd[fd] = {thread: None}
            else:
                threads[thread] = None

    def forget(self, thread: ThreadId) -> None:
        """The thread has ended."""
        self._forget_fds(thread, self._fds.pop(thread, ()))
        self._position.pop(thread, None)

    def is_quiet(self) -> bool:
        """Nobody is to be tried, whatever has happened."""
        return not self._untried

    def somebody_waits_for(self, fd: int, parked: dict[ThreadId, Operation]) -> bool:
        return any(thread in parked for thread in self._by_fd.get(fd, ()))

    def only_waiter(self, fd: int, parked: dict[ThreadId, Operation]) -> ThreadId:
        """The one thread that waits for this descriptor; 0: there is none, or not only one."""
        waiting = [thread for thread in self._by_fd.get(fd, ()) if thread in parked]
        return waiting[0] if len(waiting) == 1 else 0

    def is_expected(self, thread: ThreadId) -> bool:
        """Whether it will be tried next time in any case."""
        return thread in self._untried

    def worth_trying(self, parked: dict[ThreadId, Operation]) -> Iterable[tuple[ThreadId, Operation]]:
        """One after the other; what the trial of one touches counts for those behind it."""
        candidates: list[ThreadId] = []
        if self._untried:
            candidates += self._untried
            self._untried = {}
        if self._outside.deadlines.heap:
            candidates += self._outside.deadlines.passed(self._outside.now_ns)
        candidates += self._touched(parked)
        return self._one_by_one(candidates, parked) if candidates else ()

    def _one_by_one(
        self, candidates: list[ThreadId], parked: dict[ThreadId, Operation]
    ) -> Iterator[tuple[ThreadId, Operation]]:
        queue: list[tuple[int, ThreadId]] = []
        passed = 0
        while True:
            for thread in candidates:
                if thread not in parked:
                    continue
                if self._position[thread] > passed:
                    heappush(queue, (self._position[thread], thread))
                else:
                    self._untried[thread] = None
            if not queue:
                return
            passed, thread = heappop(queue)
            while queue and queue[0][0] == passed:
                heappop(queue)  # several reasons to try one thread
            operation = parked.get(thread)
            if operation is not None:
                yield thread, operation
            candidates = self._touched(parked)

    def _touched(self, parked: dict[ThreadId, Operation]) -> list[ThreadId]:
        fds = self._touched_since()
        if fds is None:
            return list(parked)
        return [thread for fd in fds for thread in self._by_fd.get(fd, ())]

    def _awaited(self, thread: ThreadId, operation: Operation) -> tuple[int, ...]:
        if isinstance(operation, (Receive, Send)):
            return (operation.fd,)
        if isinstance(operation, Select):
            return operation.fds + operation.writing
        if isinstance(operation, Accept):
            return (LISTENER,)
        if isinstance(operation, Connect):
            return (self._outside.connecting[thread],)
        return ()

    def _forget_fds(self, thread: ThreadId, fds: tuple[int, ...]) -> None:
        for fd in fds:
            threads = self._by_fd.get(fd)
            if threads is not None:
                threads.pop(thread, None)
                if not threads:
                    del self._by_fd[fd]
