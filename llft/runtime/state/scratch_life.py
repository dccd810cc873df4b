"""Inside a scratch process: the program, its log, and no group.

It is a driver without a core: all that the program calls is answered from the log, and when the log is over
the process tells what the program called since the state, and ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from llft import originals
from llft.errors import InvariantError
from llft.identifiers import NO_VIEW, BirthId, ViewId
from llft.journal.batch import Batch
from llft.journal.record import Record, Stamp
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Checkpoint, Fingerprint, Told
from llft.past.keeper import Verdict
from llft.past.log_reading import past_of
from llft.past.source import Interposed
from llft.past.witness import Witness
from llft.runtime import own_log
from llft.runtime.driver import Driver
from llft.runtime.own_directory import DATA, Data
from llft.runtime.poller import Poller
from llft.runtime.state.files import contents, digest_of
from llft.runtime.state.hooks import Hooks
from llft.runtime.state.no_core import NoCore
from llft.runtime.state.restart import Restart
from llft.runtime.state.scratch import Task

FAILED_STATUS = 70


class ScratchWorld:
    """The driver's world and network: there is none."""

    def died(self, reason: str, withdrawn: ViewId = NO_VIEW) -> NoReturn:
        own_log.write(f"{reason}\n")
        originals.exit_now(FAILED_STATUS)

    reborn = stopped = died

    def multicast(self, group_id: int, data: bytes) -> None: ...
    def transmit(self, birth_id: BirthId, data: bytes) -> None: ...
    def receive(self) -> list[bytes]:
        return []

    def work(self, now_ns: int) -> list[BirthId]:
        return []

    def write(self, record: Record) -> None: ...
    def write_batch(self, batch: Batch) -> None: ...
    def write_frame(self, frame: bytes, count: int, first: Stamp) -> None: ...
    def flush(self) -> None: ...
    def restore(self, checkpoint: Checkpoint, done: Callable[[BirthLog, Restart | None], None]) -> None: ...
    def store(self, checkpoint: Checkpoint, answer: Callable[[bool], None]) -> None: ...
    def tell(self, *, for_joiner: bool) -> Told:
        return Told()

    def fingerprint(self) -> Fingerprint:
        return {}


class ScratchLife(ScratchWorld):
    """The interposition's port as well, for a program that begins in this process."""

    def __init__(self, specification: dict[str, Any], task: Task) -> None:
        self._task = task
        self._hooks: Hooks | None = None
        self._endpoints: dict[str, int] = specification.get("endpoints", {})
        self._data = Data(*specification[DATA]).path if DATA in specification else ""
        self.driver = Driver(NoCore(), self, self, Poller())
        self.call, self.resume = self.driver.call, self.driver.resume
        self.spawn = self.driver.spawn
        self.current = self.driver.current

    def program_begins(self, interposed: Interposed) -> None:
        self._hooks = Hooks(self.driver.application, interposed, "", self._data)

    def begin(self) -> None:
        """By hooks: a program that is about to begin."""
        task, driver = self._task, self.driver

        def restore() -> None:
            assert self._hooks is not None
            state = contents(task.state)
            self._hooks.check_counts(state)
            with driver.aside():
                self._hooks.restore(state)
            driver.application.witness = Witness()

        with driver.lock:
            driver.application.past_over = lambda: tell(driver, task)
            driver.application.begin_restoring()
            head = contents(task.head)
            log = BirthLog(contents(task.log), start=task.position, digest=task.digest, head=head)
            driver.application.begin_replay(past_of(log, ordered=False), [], (), Restart(head, restore))

    # -- Port --------------------------------------------------------------------------------------

    def ordered(self) -> bool:
        return False

    def listening(self, host: str, port: int) -> None: ...
    def not_listening(self, host: str, port: int) -> None: ...

    def group_of(self, host: str, port: int) -> int:
        return self._endpoints.get(f"{host}:{port}", 0)

    def gateway(self) -> int:
        raise InvariantError("scratch_asked_the_outside")

    def ended(self, status: int) -> NoReturn:
        self.died(f"the program ended with status {status}")


def follow_image(driver: Driver, task: Task) -> None:
    """This process was restored from an image; its port is the one that it had. Lock held."""
    world = ScratchWorld()
    driver.world = driver.network = world
    driver.begin_again(NoCore(), Poller())
    application = driver.application
    application.begin_again(task.position, task.digest)
    application.witness = Witness()
    application.past_over = lambda: tell(driver, task)
    application.begin_restoring()
    past = application.log.beginning(contents(task.log))
    application.begin_replay(past_of(past, ordered=False), [])


def tell(driver: Driver, task: Task) -> NoReturn:
    """The log is over."""
    witness = driver.application.witness
    assert witness is not None
    content, size = digest_of(task.state)
    verdict = Verdict(witness.digest, witness.count, content, size)
    with open(task.verdict, "wb") as file:
        file.write(json.dumps(verdict).encode())
    originals.exit_now(0)
