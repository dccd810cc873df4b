"""What the clients of a load saw, as a journal: the audit holds it against the accounts' sequential model.

One file for all clients of the process, and one clock. It is written like a replica's journal, so it is read,
sealed and carried like one.
"""

from __future__ import annotations

import os
import time

from llft.identifiers import NO_VIEW, BirthId
from llft.journal.record import Called, Stamp
from llft.journal.writer import JournalWriter


class LoadHistory:
    def __init__(self, path: str, group_id: int) -> None:
        self._writer = JournalWriter(path)
        self._group_id = group_id
        self._birth_id = BirthId(0, os.getpid(), time.time_ns())

    def answered(self, client: str, amount: int, result: str, order: int, times_ns: tuple[int, int]) -> None:
        """`times_ns`: of the call and of its return. An account belongs to one client, and the reply says
        how many requests on it there were: that is the request's place in the group's order."""
        call_ns, return_ns = times_ns
        self._write(return_ns, client, amount, result, call_ns, return_ns, order)

    def unanswered(self, client: str, amount: int, call_ns: int) -> None:
        self._write(call_ns, client, amount, "", call_ns, 0, 0)

    def _write(
        self, now_ns: int, client: str, amount: int, result: str, call_ns: int, return_ns: int, order: int
    ) -> None:
        stamp = Stamp(now_ns, self._group_id, self._birth_id, NO_VIEW)
        operation = f"ADD {amount}"
        self._writer.write(
            Called(stamp, client, f"account:{client}", operation, result, call_ns, return_ns, order)
        )

    def close(self) -> None:
        self._writer.close()
