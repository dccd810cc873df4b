"""Restoring a program: check that it is the same program, get its log and its base, have it replayed.

In a thread of its own, for it may take long. Whatever fails here ends this life of the process: a member
that has no state, and will get none, would be left.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import NamedTuple, NoReturn, Protocol, TypeVar
from zlib import crc32

from llft import originals
from llft.errors import PeerError
from llft.identifiers import NO_VIEW, ViewId
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base, Checkpoint, Fingerprint
from llft.past.source import HOOKS, IMAGE
from llft.runtime import fingerprint, own_log
from llft.runtime.driver import Driver
from llft.runtime.liveness import Liveness, LogSource, fetch_log, fetch_log_into, fetch_state
from llft.runtime.state.checkpoints import Checkpoints
from llft.runtime.state.files import digest_of, linked
from llft.runtime.state.restart import Restart
from llft.runtime.transport import Transport


class Material(NamedTuple):
    """A program's past: the log, and the state by hooks that it follows, if it does not begin with birth."""

    log: BirthLog
    base: Base | None = None
    state: bytes = b""


Beginning = Callable[..., BirthLog]
"""A log from where the program is, with these bytes, or none."""
Done = Callable[[BirthLog, Restart | None], None]

Fetched = TypeVar("Fetched")
IMAGE_TO_BE = "LLFT_IMAGE"
"""The path of an image that a new process is to become, and the fields of its Base."""
FETCH_TIMEOUT_S = 30.0
IMAGE_TIMEOUT_S = 120.0
FETCH_ROUNDS = 50
FETCH_PAUSE_S = 0.1


class Life(Protocol):
    """What of a replica process is needed here; its ends are called with the driver's lock held."""

    driver: Driver
    transport: Transport
    liveness: Liveness
    checkpoints: Checkpoints
    path: str

    def say(self, text: str) -> None: ...
    def fingerprint(self) -> Fingerprint: ...
    def reborn(self, reason: str, withdrawn: ViewId = NO_VIEW, more: Mapping[str, str] = ...) -> NoReturn: ...
    def different(self) -> NoReturn: ...
    def died(self, reason: str) -> NoReturn: ...


class Restoring:
    def __init__(self, life: Life) -> None:
        self._life = life

    def restore(self, wanted: Checkpoint, done: Done) -> None:
        self.obtain(wanted, lambda found: self.hand_over(found, done))

    def hand_over(self, found: Material, done: Done) -> None:
        """The program is to go through it."""
        restart = None
        if found.base is not None:
            head = found.log.piece(0, found.base.head_bytes)
            restart = self._life.checkpoints.restart(found.base, head, found.state)
        done(found.log, restart)

    def obtain(self, wanted: Checkpoint, use: Callable[[Material], None]) -> None:
        try:
            self._obtain(wanted, use)
        except Exception:  # noqa: BLE001 (a thread's failure would be nobody's)
            own_log.write(traceback.format_exc())
            with self._life.driver.lock:
                self._life.died("the program's past could not be restored")

    def _obtain(self, wanted: Checkpoint, use: Callable[[Material], None]) -> None:
        self._refuse_if_different(wanted.fingerprint)
        try:
            log = self._life.driver.application.log
            if wanted.base is None or log.start:
                use(self._go_on(wanted, log))
            elif wanted.base.source == HOOKS:
                use(self._restart(wanted, wanted.base))
            elif wanted.base.source == IMAGE:
                self.become(wanted, wanted.base)
            else:
                raise PeerError("state_source_unknown", "run the same version of LLFT at all replicas")
        except (OSError, PeerError) as error:
            with self._life.driver.lock:
                self._life.reborn(f"no birth log: {error}")

    def _go_on(self, wanted: Checkpoint, log: BirthLog) -> Material:
        """From birth, or from where the image was taken that this process was restored from."""
        found = self._log(wanted, log.beginning)
        self._life.say(f"has {found.length - found.start} bytes of the program's past, from {found.start} on")
        return Material(found)

    def become(self, wanted: Checkpoint, base: Base) -> NoReturn:
        """An image takes the place of the whole process, in its next life."""
        life = self._life
        path = f"{life.path}.state-{base.position}"
        began_ns = originals.monotonic_ns()
        found = linked(path, base)
        if not found:
            self._fetch(wanted, lambda peer: _image_into(path, peer, base))
        seconds = (originals.monotonic_ns() - began_ns) / 1e9
        how = "found here" if found else "fetched"
        life.say(f"{base.size / 1e6:.1f} MB of image, {how} in {seconds:.2f} s")
        with life.driver.lock:
            life.reborn("as an image", more={IMAGE_TO_BE: json.dumps([path, *base])})

    def _restart(self, wanted: Checkpoint, base: Base) -> Material:
        """From a state by hooks: the program begins, comes to its ready point, and is restored there."""
        life = self._life
        head = self._fetch(wanted, lambda peer: fetch_log(peer, base.head_bytes, timeout_s=FETCH_TIMEOUT_S))
        if crc32(head) != base.head_digest:
            raise PeerError("birth_log_digest_differs", "fetch it again")
        state = self._fetch(wanted, lambda peer: whole_state(peer, base))

        def beginning(data: bytes = b"") -> BirthLog:
            return BirthLog(data, start=base.position, digest=base.digest, head=head)

        log = self._log(wanted, beginning)
        life.say(
            f"has {len(state)} bytes of state by {base.source}, with {len(head)} bytes of the program's past "
            f"before it and {log.length - log.start} after it"
        )
        return Material(log, base, state)

    def _log(self, wanted: Checkpoint, beginning: Beginning) -> BirthLog:
        if wanted.log is not None and wanted.carried_from == beginning().start:
            return beginning(wanted.log)

        def fetch(peer: LogSource) -> BirthLog:
            log = beginning()
            fetch_log_into(log.go_on, peer, wanted.length, start=log.start, timeout_s=FETCH_TIMEOUT_S)
            if (log.length, log.digest) != (wanted.length, wanted.digest):
                raise PeerError("birth_log_digest_differs", "fetch it again", source=str(peer.birth_id))
            return log

        return self._fetch(wanted, fetch)

    def _fetch(self, wanted: Checkpoint, fetch: Callable[[LogSource], Fetched]) -> Fetched:
        """From whoever took the checkpoint, or, should it be gone, from another member: under the token
        all members have the same log."""
        life, source = self._life, wanted.taken_by
        failure: OSError | PeerError = PeerError("birth_log_nowhere", "nobody serves it")
        for _ in range(FETCH_ROUNDS):
            others = (peer.birth_id for peer in life.transport.peers() if peer.birth_id != source)
            for candidate in (source, *others):
                try:
                    return fetch(life.liveness.peer(candidate))
                except (OSError, PeerError) as error:
                    failure = error
            originals.sleep(FETCH_PAUSE_S)  # another member may not be as far yet
        raise failure

    def _refuse_if_different(self, group: Fingerprint) -> None:
        life = self._life
        different = fingerprint.differences(group, life.fingerprint())
        if not group or not different:  # an update goes to members, which were compared when they joined
            return
        life.say("this replica is not like its group, and cannot join it:")
        for line in different[: fingerprint.DIFFERENCES_SHOWN]:
            life.say(f"  {line}")
        if len(different) > fingerprint.DIFFERENCES_SHOWN:
            life.say(f"  and {len(different) - fingerprint.DIFFERENCES_SHOWN} more")
        life.say("make them alike, then start it again")
        with life.driver.lock:
            life.different()


def whole_state(peer: LogSource, base: Base) -> bytes:
    found = bytearray()
    fetch_state(peer, base.position, start=0, end=base.size, timeout_s=FETCH_TIMEOUT_S, take=found.extend)
    if blake2b(found, digest_size=16).hexdigest() != base.content:
        raise PeerError("state_digest_differs", "fetch it again", source=str(peer.birth_id))
    return bytes(found)


def _image_into(path: str, peer: LogSource, base: Base) -> bytes:
    """Into a file; what an earlier attempt has left there is not fetched again."""
    with open(path, "ab", buffering=0) as file:
        start = min(file.tell(), base.size)
        fetch_state(
            peer, base.position, start=start, end=base.size, timeout_s=IMAGE_TIMEOUT_S, take=file.write
        )
    if digest_of(path) != (base.content, base.size):
        originals.unlink(path)
        raise PeerError("state_digest_differs", "fetch it again", source=str(peer.birth_id))
    return b""
