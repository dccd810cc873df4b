"""The effects that concern the program's state: what a State message says of it, holding it, becoming it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core import events
from llft.core.effects import CaptureState
from llft.errors import InvariantError, PeerError
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Checkpoint, pack, unpack
from llft.past.log_reading import past_of
from llft.runtime.state.restart import Restart

if TYPE_CHECKING:
    from llft.runtime.driver import Driver


def captured(driver: Driver, effect: CaptureState) -> events.StateCaptured:
    """Where the program is now, in the words of its log. Of a program whose log is still elsewhere the words
    would be wrong: that it was never born."""
    application, core, world = driver.application, driver.core, driver.world
    if not core.standing.has_past:
        raise InvariantError("captured_without_past")
    log = application.log
    out = list(application.out_for_core)
    is_out = core.determinizer.is_out
    again = [number for number in application.threads if number not in out and is_out(number)]
    birth_id = core.standing.birth_id
    told = world.tell(for_joiner=effect.for_joiner)
    fingerprint = world.fingerprint() if effect.for_joiner else {}
    taken = Checkpoint(birth_id, log.length, log.digest, out, again, fingerprint, *told)
    return events.StateCaptured(pack(taken, log))


def store(driver: Driver, state: bytes) -> None:
    try:
        checkpoint = unpack(state)
    except PeerError as error:
        driver.world.reborn(str(error))
    driver.world.store(checkpoint, lambda held: driver.wish(events.StateStored(held)))


def restore(driver: Driver, state: bytes) -> None:
    try:
        checkpoint = unpack(state)
    except PeerError as error:
        driver.world.reborn(str(error))

    def replay(log: BirthLog, restart: Restart | None = None) -> None:
        past = past_of(log, ordered=driver.application.ordered)
        with driver.lock:
            try:
                driver.application.begin_replay(past, checkpoint.out, checkpoint.again, restart)
            except PeerError:
                raise  # the bytes are not a log: they are fetched again
            except Exception as error:  # noqa: BLE001 (the driver's invariant 4)
                driver.fail_replay(error)
            driver.wish(events.StateStored(held=True))

    driver.application.begin_restoring()
    driver.world.restore(checkpoint, replay)
