"""Runs (D-72): calls of the program's that are made without the core, lent and taken back.

Invariants:

1. Whoever holds the driver's lock finds no run lent: `CoreLock` takes it back when it is entered. So nothing
   that happens under the lock, and that is all that ever happens to the core and the application, can see a
   core that does not know of a call that was made.
2. A run is lent as the last act under the lock, to the native thread of the one program thread that is out,
   and only to one that could have made its last call at once (`immediate`): none that repeats a past, or is
   compared with one.
3. What was made of it is in the program's past before anything is captured, and before anything leaves.

Only the compiled lane lends: Python itself could not make a call and note it without a moment in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from llft import originals
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Claim,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
    Result,
)
from llft.core.determinizer.ordered_runs import CLAIM_CODE, RELEASE_CODE
from llft.core.determinizer.runs import NOTHING_CODE, RANDOM_CODE, pieces
from llft.errors import InvariantError
from llft.identifiers import ThreadId
from llft.past.birth_log import CALLED, OPERATION_KINDS, encode_result
from llft.runtime.application_thread import ApplicationThread
from llft.wire.varint import put_uvarint

if TYPE_CHECKING:
    from llft.runtime.driver import Driver

native: Any
try:
    from llft import reading_on
except ImportError:
    native = None
else:
    native = reading_on

READ_CLOCK: Final = OPERATION_KINDS[ReadClock]
RANDOM_BYTES: Final = OPERATION_KINDS[RandomBytes]
RECEIVE: Final = OPERATION_KINDS[Receive]
CLAIM: Final = OPERATION_KINDS[Claim]
RELEASE: Final = OPERATION_KINDS[Release]
LENT_AFTER: Final = frozenset((READ_CLOCK, RANDOM_BYTES, RECEIVE, CLAIM, RELEASE))
"""Kinds of calls: where there was one there are often more."""
BRIEF: Final = 0xFFFF_FFFF
"""So much of a mutex's number the birth log has."""
NOWHERE: Final = -1
is_lent: Callable[[], bool] = (lambda: False) if native is None else native.is_open
i_am: Callable[[int], None] = (lambda number: None) if native is None else native.i_am
"""Which of the program's threads this one is; 0: none of them."""


class Lending:
    __slots__ = ("_driver", "_lent_to")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lent_to: ApplicationThread | None = None

    def lend(self, thread: ApplicationThread, ident: int) -> None:
        """To a thread whose call was completed at once, and that is in this native thread. Lock held."""
        try:
            self._lend(thread, ident)
        except Exception:  # noqa: BLE001 (the same: the program would take it for its own)
            self._driver.die("on lending a run")

    def _lend(self, thread: ApplicationThread, ident: int) -> None:
        driver = self._driver
        application = driver.application
        if native is None or application.replaying or application.witness is not None:
            return
        run, operation, idle = driver.core.run, thread.operation, NOWHERE
        if isinstance(operation, Receive):
            if thread.result != WOULD_BLOCK:
                return  # it has something to do
            idle = operation.fd
        if driver.core.live:
            room = run.room(thread.number)
            if room <= 0:
                return
            native.open_live(ident, room, run.clocks(), idle, *run.mutexes())
        else:
            codes, values, sizes = run.logged(thread.number)
            if not values:
                return
            native.open_log(ident, codes, values, sizes)
        self._lent_to = thread

    def take_back(self) -> None:
        """Lock held, and a run is lent."""
        thread, self._lent_to = self._lent_to, None
        try:
            if native.is_talking():
                self._driver.dialogues.take_back()
                return
            made = native.close()
            if made is not None:
                self._tell(thread, *made)
        except Exception:  # noqa: BLE001 (the driver's invariant 4)
            self._driver.die("on calls of a run")

    def _tell(
        self,
        thread: ApplicationThread | None,
        codes: bytes,
        values: list[Any],
        local: tuple[int, int, int],
        sizes: list[int],
    ) -> None:
        driver = self._driver
        if thread is None:
            raise InvariantError("run_of_nobody", calls=len(values))
        driver.core.run.take_back(thread.number, codes, values, local, originals.monotonic_ns(), sizes)
        if driver.application.ordered:
            driver.application.log.go_on(births_in_order(thread.number, codes, values, sizes))
        else:
            self._tell_in_pieces(thread, codes, values)
        if driver.core.outbox.effects:
            driver.perform(driver.core.drain())

    def _tell_in_pieces(self, thread: ApplicationThread, codes: bytes, values: list[Any]) -> None:
        log = self._driver.application.log
        for code, start, end in pieces(codes):
            if code == RANDOM_CODE:
                log.completed_all(thread.number, RANDOM_BYTES, values[start:end])
            elif code == NOTHING_CODE:
                log.completed_all(thread.number, RECEIVE, [WOULD_BLOCK] * (end - start))
            else:
                log.read_on(thread.number, READ_CLOCK, values[start:end])


def birth_of(thread: ThreadId, kind: int, about: int, result: Result) -> bytes:
    """What the birth log has of a call, and of its completion."""
    number = bytearray()
    put_uvarint(number, thread)
    head = bytes(number)
    return b"".join((head, bytes((CALLED,)), about.to_bytes(4, "little"), head, encode_result(kind, result)))


def births_in_order(thread: ThreadId, codes: bytes, values: list[Any], sizes: list[int]) -> bytes:
    """What the birth log has of calls in ordered mode, where it says of each that it was called, too."""
    known: dict[tuple[int, int], tuple[bytes, bytes]] = {}
    """Of mutexes: a program claims and releases the same ones again and again."""
    found: list[bytes] = []
    for at, (code, value) in enumerate(zip(codes, values, strict=True)):
        if code == RANDOM_CODE:
            found.append(birth_of(thread, RANDOM_BYTES, len(value), value))
        elif code < CLAIM_CODE:
            found.append(birth_of(thread, READ_CLOCK, code, value))
        else:
            births = known.get((code, value))
            if births is None:
                births = known[code, value] = births_of_pair(thread, code, value)
            once, pair = births
            pairs, single = divmod(sizes[at] if sizes else 1, 2)
            if pairs:
                found.append(pair * pairs)
            if single:
                found.append(once)
    return b"".join(found)


def births_of_pair(thread: ThreadId, code: int, mutex: int) -> tuple[bytes, bytes]:
    """Of a claim or a release of a mutex, and of that and the next one."""
    first, second = (RELEASE, CLAIM) if code == RELEASE_CODE else (CLAIM, RELEASE)
    once = birth_of(thread, first, mutex & BRIEF, True)
    return once, once + birth_of(thread, second, mutex & BRIEF, True)
