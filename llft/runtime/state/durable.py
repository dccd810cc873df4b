"""A replica that keeps its history on disk, and a group that goes on from one (docs/CHECKPOINTS.md).

What the program was given is on disk before anything leaves that follows from it. So what a client has an
answer to is on the disk of the primary that answered; at output commit level 1 the core has waited until it
is on a backup's, too (D-71).
"""

from __future__ import annotations

from typing import Any, Protocol

from llft import originals
from llft.core import events
from llft.core.replica import Replica
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base, Fingerprint
from llft.past.history import VERSION, Heading, Past, view_number
from llft.past.log_reading import past_of
from llft.past.source import HOOKS
from llft.runtime import fingerprint
from llft.runtime.driver import Driver
from llft.runtime.pacemaker import Pacemaker
from llft.runtime.state.checkpoints import Checkpoints
from llft.runtime.state.history import History, read_history

DURABLE, RESTORE, SYNC, GENERATION = "durable", "restore", "sync", "generation"
"""Of a specification: where the history is kept, from which one the group goes on, whether every write waits
for the disk, and how often the group was restarted."""


class Life(Protocol):
    """What of a replica process is needed here."""

    driver: Driver
    core: Replica
    checkpoints: Checkpoints
    pacemaker: Pacemaker
    specification: dict[str, Any]
    path: str

    def say(self, text: str) -> None: ...
    def fingerprint(self) -> Fingerprint: ...
    def died(self, reason: str) -> Any: ...
    def different(self) -> Any: ...


class Durable:
    """All of it under the driver's lock."""

    def __init__(self, life: Life) -> None:
        self._life = life
        specification = life.specification
        self._told = False
        self._history = History(specification[DURABLE], sync=bool(specification.get(SYNC)))

    def flush(self) -> None:
        """Before anything leaves this process. A past that is being repeated is on disk elsewhere."""
        life = self._life
        application = life.driver.application
        if application.replaying or not application.log.length:
            return
        try:
            if not self._history.begun:
                self._begin(*life.checkpoints.newest())
            self._history.flush(application.log, view_number(life.core))
        except OSError as error:
            life.died(f"its history cannot be written: {error}")

    def tend(self) -> None:
        """A newer state makes the log before it superfluous."""
        base, state = self._life.checkpoints.newest()
        if self._history.begun and base != self._history.base:
            try:
                self._begin(base, state)
            except OSError as error:
                self._life.say(f"the history on disk goes on from its former state: {error}")
        self.flush()
        if self._history.begun and not self._told:
            self._told = True
            self._life.driver.wish(events.HistoryBegun())

    def close(self) -> None:
        self._history.close()

    def _begin(self, base: Base | None, state: str) -> None:
        life, log = self._life, self._life.driver.application.log
        outside = life.core.determinizer.engine.outside
        heading = Heading(
            VERSION,
            life.fingerprint(),
            list(base) if base is not None else None,
            base.position if base is not None else 0,
            base.digest if base is not None else 0,
            base.head_bytes if base is not None else 0,
            outside.clock.snapshot(outside.local_clock),
            life.specification.get(GENERATION, 0),
        )
        self._history.begin(heading, base, state, log, view_number(life.core))


def go_on(life: Life) -> None:
    """The program goes through its past, as it is on disk; then the group begins again with it."""
    past = read_history(life.specification[RESTORE])
    different = fingerprint.differences(past.heading.fingerprint, life.fingerprint())
    if different:
        for line in different[: fingerprint.DIFFERENCES_SHOWN]:
            life.say(f"it is not what the history is of: {line}")
        life.different()
    life.say(f"goes on from disk: {len(past.log)} bytes of the program's past, from {past.heading.start} on")
    application = life.driver.application
    log, restart = application.log.beginning(past.log), None
    if past.base is not None and past.base.source == HOOKS:
        with open(past.state_path, "rb") as file:
            restart = life.checkpoints.restart(past.base, past.head, file.read())
        log = BirthLog(past.log, start=past.base.position, digest=past.base.digest, head=past.head)
    with life.driver.lock:
        application.readings = {clock_id: last for clock_id, _, last in past.heading.clock}
        application.past_over = lambda: _begin_again(life, past)
        application.begin_restoring()
        application.begin_replay(past_of(log, ordered=application.ordered), [], (), restart)


def _begin_again(life: Life, past: Past) -> None:
    driver = life.driver
    application, driver.application.past_over = driver.application, lambda: None
    readings, application.readings = application.readings or {}, None
    life.say(f"has come to the end of its past, at {application.log.length}: the group begins again")
    # Under the token a program's locks are in its own memory: the core has no mutex of its.
    driver.wish(driver.resumed.started(readings, originals.clock_gettime_ns, held={}))
    life.pacemaker.start()
