"""Restoring a program from its birth log: check that it is the same program, get the log, have it replayed.

In a thread of its own, for it may take long. Whatever fails here ends this life of the process: a member
that has no state, and will get none, would be left.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import NoReturn, Protocol

from llft import originals
from llft.errors import PeerError
from llft.runtime import fingerprint, own_log
from llft.runtime.checkpoint import Checkpoint
from llft.runtime.driver import Driver
from llft.runtime.fingerprint import Fingerprint
from llft.runtime.liveness import Liveness, fetch_log
from llft.runtime.transport import Transport

FETCH_TIMEOUT_S = 30.0
FETCH_ROUNDS = 50
FETCH_PAUSE_S = 0.1


class Life(Protocol):
    """What of a replica process is needed here; its ends are called with the driver's lock held."""

    driver: Driver
    transport: Transport
    liveness: Liveness

    def say(self, text: str) -> None: ...
    def fingerprint(self) -> Fingerprint: ...
    def reborn(self, reason: str) -> NoReturn: ...
    def different(self) -> NoReturn: ...
    def died(self, reason: str) -> NoReturn: ...


class Restoring:
    def __init__(self, life: Life) -> None:
        self._life = life

    def restore(self, wanted: Checkpoint, done: Callable[[bytes], None]) -> None:
        try:
            self._restore(wanted, done)
        except Exception:  # noqa: BLE001 (a thread's failure would be nobody's)
            own_log.write(traceback.format_exc())
            with self._life.driver.lock:
                self._life.died("the program's past could not be restored")

    def _restore(self, wanted: Checkpoint, done: Callable[[bytes], None]) -> None:
        self._refuse_if_different(wanted.fingerprint)
        try:
            data = self._fetch(wanted) if wanted.log is None else wanted.log
            self._life.say(f"replaying {len(data)} bytes of the program's past")
            done(data)
        except (OSError, PeerError) as error:
            with self._life.driver.lock:
                self._life.reborn(f"no birth log: {error}")

    def _fetch(self, wanted: Checkpoint) -> bytes:
        """From whoever took the checkpoint, or, should it be gone, from another member: under the token
        all members have the same log."""
        life, source = self._life, wanted.taken_by
        failure: OSError | PeerError = PeerError("birth_log_nowhere", "nobody serves it")
        for _ in range(FETCH_ROUNDS):
            others = (peer.birth_id for peer in life.transport.peers() if peer.birth_id != source)
            for candidate in (source, *others):
                try:
                    peer = life.liveness.peer(candidate)
                    data = fetch_log(peer, wanted.length, timeout_s=FETCH_TIMEOUT_S)
                except (OSError, PeerError) as error:
                    failure = error
                    continue
                if wanted.is_of(data):
                    return data
                failure = PeerError("birth_log_digest_differs", "fetch it again", source=str(candidate))
            originals.sleep(FETCH_PAUSE_S)  # another member may not be as far yet
        raise failure

    def _refuse_if_different(self, group: Fingerprint) -> None:
        life = self._life
        different = fingerprint.differences(group, life.fingerprint())
        if not different:
            return
        life.say("this replica is not like its group, and cannot join it:")
        for line in different[: fingerprint.DIFFERENCES_SHOWN]:
            life.say(f"  {line}")
        if len(different) > fingerprint.DIFFERENCES_SHOWN:
            life.say(f"  and {len(different) - fingerprint.DIFFERENCES_SHOWN} more")
        life.say("make them alike, then start it again")
        with life.driver.lock:
            life.different()
