"""What the driver knows of the process round it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from llft.identifiers import NO_VIEW, BirthId, ViewId
from llft.journal.batch import Batch
from llft.journal.record import Record, Stamp
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Checkpoint, Fingerprint, Told
from llft.runtime.state.restart import Restart


class Network(Protocol):
    """What the driver needs of the transport and of liveness together."""

    def multicast(self, group_id: int, data: bytes) -> None: ...
    def transmit(self, birth_id: BirthId, data: bytes) -> None: ...
    def receive(self) -> list[bytes]: ...
    def work(self, now_ns: int) -> list[BirthId]:
        """Other sockets; returns the certificates of death that came."""


class World(Protocol):
    """What a replica process is asked to do beyond messages and threads."""

    def write(self, record: Record) -> None: ...
    def write_batch(self, batch: Batch) -> None: ...
    def write_frame(self, frame: bytes, count: int, first: Stamp) -> None:
        """Of so many records, packed; the first has this stamp."""

    def flush(self) -> None: ...
    def restore(self, checkpoint: Checkpoint, done: Callable[[BirthLog, Restart | None], None]) -> None:
        """Check that the program is the same, get the birth log and the state if the checkpoint only names
        them, and hand them to `done`: in a thread of its own, for it may take long."""

    def tell(self, *, for_joiner: bool) -> Told:
        """What a checkpoint that is taken now names, and how much of the log comes with it."""

    def store(self, checkpoint: Checkpoint, answer: Callable[[bool], None]) -> None:
        """Hold what `restore` would need, so that nobody else is needed for it; then say whether it is held:
        now, or later, with the driver's lock."""

    def fingerprint(self) -> Fingerprint: ...
    def reborn(self, reason: str, withdrawn: ViewId = NO_VIEW) -> NoReturn: ...
    def stopped(self, reason: str) -> NoReturn: ...
    def died(self, reason: str) -> NoReturn: ...
