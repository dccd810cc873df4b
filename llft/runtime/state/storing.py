"""A semi-passive backup's shell: it holds what the core has been told, and hands it over at the promotion.

    StoreState of a joiner      everything is fetched, as by a semi-active one, and kept instead of replayed
    StoreState of an update     what it carries goes on where the log ends; what is missing is fetched
    a newer base                is fetched beside that; when it is here, the log before it is dropped (an
                                image takes the place of the process: it joins anew, if others stay)
    RestoreState                the program begins, with what is held, and nobody else is needed

Laws:

1. An update is held (StateStored) before the core forgets what the state before it needs.
2. What is held is checked against the digest of the checkpoint that names it, which is the whole log's.
3. One update at a time (the core's), one base at a time; neither changes the log under the other's hands.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress

from llft import originals
from llft.errors import PeerError
from llft.identifiers import Member
from llft.instant import SECOND
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base, Checkpoint
from llft.past.source import HOOKS
from llft.runtime import own_log
from llft.runtime.liveness import fetch_log
from llft.runtime.restoring import FETCH_TIMEOUT_S, Done, Life, Material, Restoring, whole_state
from llft.runtime.state.stored import Stored

CALM_NS = 3 * SECOND
"""A membership that has not changed for so long has all its states."""
FIRST_BACKUP_RANK = 2

Answer = Callable[[bool], None]
"""Whether it is held. Called with the driver's lock."""


class Storing:
    def __init__(self, life: Life) -> None:
        self._life = life
        self.stored: Stored | None = None
        """None: nothing yet, or no more."""
        self._runs = False
        """The program runs here, or is about to."""
        self._catching_up = self._refreshing = False
        self._membership: tuple[Member, ...] = ()
        self._changed_ns = 0
        self._from_start = False
        """What is held beyond its beginning is doubtful."""

    # -- effects of the core; lock held ----------------------------------------------------------------

    def store(self, wanted: Checkpoint, answer: Answer) -> None:
        if self.stored is None:
            restoring = Restoring(self._life)
            originals.start_new_thread(restoring.obtain, (wanted, lambda found: self._keep(found, answer)))
        elif self.stored.follow(wanted):
            answer(True)
            self._refresh(wanted)
        else:
            self._catching_up = True
            originals.start_new_thread(self._run, (self._catch_up, self.stored, wanted, answer))

    def restore(self, wanted: Checkpoint, done: Done) -> None:
        """Promotion; or a semi-active replica joins, which holds nothing yet."""
        stored, self.stored = self.stored, None
        self._runs = True
        if stored is not None and stored.has(wanted):
            stored.log.go_on_from(wanted.length, b"")
            originals.start_new_thread(self._run, (self._begin, stored, done))
        else:
            originals.start_new_thread(Restoring(self._life).restore, (wanted, done))

    @property
    def log(self) -> BirthLog:
        """Of the program that runs here, or is to."""
        return self._life.driver.application.log if self.stored is None else self.stored.log

    def statistics(self) -> dict[str, int] | None:
        """None: nothing is held here."""
        if self.stored is None:
            return None
        base = self.stored.base
        return {
            "position": self.stored.log.length,
            "base": base.position if base is not None else self.stored.log.start,
            "state_bytes": base.size if base is not None else 0,
            "log_bytes": self.stored.log.kept_bytes,
        }

    # -- threads ---------------------------------------------------------------------------------------

    def _run(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            function(*arguments)
        except Exception:  # noqa: BLE001 (a thread's failure would be nobody's)
            own_log.write(traceback.format_exc())
            with self._life.driver.lock:
                self._life.died("the program's state could not be held")

    def _keep(self, found: Material, answer: Answer) -> None:
        path = self._write(found.base, found.state) if found.base is not None else ""
        with self._life.driver.lock:
            if not self._runs:
                self.stored = Stored(found.log, found.base, path)
                self._life.say(f"holds {found.log.kept_bytes} bytes of log, and executes nothing")
            answer(True)

    def _begin(self, stored: Stored, done: Done) -> None:
        state = b""
        if stored.path:
            with open(stored.path, "rb") as file:
                state = file.read()
        self._life.say(f"begins the program with what it holds: {stored.log.kept_bytes} bytes of log")
        Restoring(self._life).hand_over(Material(stored.log, stored.base, state), done)

    def _catch_up(self, stored: Stored, wanted: Checkpoint, answer: Answer) -> None:
        log = stored.log
        whole = self._from_start or log.length > wanted.length
        start, digest = (log.start, log.digest_before) if whole else (log.length, log.digest)
        data = b""
        try:
            peer = self._life.liveness.peer(wanted.taken_by)
            data = fetch_log(peer, wanted.length, start=start, timeout_s=FETCH_TIMEOUT_S)
            held = wanted.is_of(data, start=start, digest=digest)
            self._from_start = not held
        except (OSError, PeerError) as error:
            held = False
            self._life.say(f"an update of the state could not be fetched: {error}")
        with self._life.driver.lock:
            if held and self.stored is stored:
                log.go_on_from(start, data)
            self._catching_up = False
            answer(held)

    # -- a newer base ----------------------------------------------------------------------------------

    def _refresh(self, wanted: Checkpoint) -> None:
        stored, base = self.stored, wanted.base
        assert stored is not None
        if base is None or self._refreshing or not stored.can_begin_with(base):
            return
        if base.source == HOOKS:
            self._refreshing = True
            originals.start_new_thread(self._run, (self._fetch_base, stored, wanted, base))
        elif self._may_leave():
            self._refreshing = True
            originals.start_new_thread(self._run, (self._become, wanted, base))

    def _may_leave(self) -> bool:
        """For as long as it takes to join anew. One at a time: the first in the succession, which is the last
        one then; and only where another backup stays, which was there for a while."""
        standing, now_ns = self._life.driver.core.standing, originals.monotonic_ns()
        if standing.membership != self._membership:
            self._membership, self._changed_ns = standing.membership, now_ns
        others_stay = standing.rank == FIRST_BACKUP_RANK < len(standing.membership)
        return others_stay and now_ns - self._changed_ns > CALM_NS

    def _become(self, wanted: Checkpoint, base: Base) -> None:
        try:
            Restoring(self._life).become(wanted, base)
        except (OSError, PeerError) as error:
            self._life.say(f"a newer image could not be fetched: {error}")
            self._refreshing = False

    def _fetch_base(self, stored: Stored, wanted: Checkpoint, base: Base) -> None:
        """If it fails, the next update names a base again."""
        try:
            peer = self._life.liveness.peer(wanted.taken_by)
            head = stored.head(base)
            if head is None:
                head = fetch_log(peer, base.head_bytes, timeout_s=FETCH_TIMEOUT_S)
            path = self._write(base, whole_state(peer, base))
        except (OSError, PeerError) as error:
            self._life.say(f"a newer state could not be fetched: {error}")
            self._refreshing = False
            return
        with self._life.driver.lock:
            self._refreshing = False
            if self.stored is stored and not self._catching_up and stored.can_begin_with(base):
                former = stored.path
                stored.begin_with(base, head, path)
                _unlink(former)

    def close(self) -> None:
        """This life ends."""
        if self.stored is not None:
            _unlink(self.stored.path)

    def _write(self, base: Base, state: bytes) -> str:
        path = f"{self._life.path}.state-{base.position}"
        with open(path, "wb") as file:
            file.write(state)
        return path


def _unlink(path: str) -> None:
    if path:
        with suppress(FileNotFoundError):
            originals.unlink(path)
