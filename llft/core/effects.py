"""What a replica wants done. Effects are imperative; the shell performs them in order."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

from llft.core.determinizer.engine import MAIN_THREAD
from llft.core.determinizer.operations import Result
from llft.core.record_kinds import OPERATED, OPERATED_AS_TOLD
from llft.identifiers import NO_VIEW, BirthId, GroupId, ThreadId, ViewId
from llft.journal.batch import Batch
from llft.journal.record import Record, Stamp

_new_tuple: Final = tuple.__new__
"""A record is a named tuple; to call it would only pass its fields on, in Python."""


class Multicast(NamedTuple):
    """Send to every member of a group. To one's own group: to the other members."""

    group_id: GroupId
    data: bytes


class Transmit(NamedTuple):
    """Send to one process of one's own group."""

    birth_id: BirthId
    data: bytes


class StartApplication(NamedTuple):
    """Begin the program from its birth: create its main thread (thread 1) and run it."""


class ResumeThread(NamedTuple):
    """The operation that this thread invoked is complete; it runs on with the result."""

    thread: ThreadId
    result: Result


class StartThread(NamedTuple):
    """The thread that invoked Spawn has a new sibling, which is to run now."""

    thread: ThreadId
    argument: Any


class RepeatCall(NamedTuple):
    """This thread stands in a call that was made to an earlier group (D-64): it makes it once more."""

    thread: ThreadId


class CaptureState(NamedTuple):
    """Checkpoint the application now, all its threads being parked, and answer with
    StateCaptured before anything else happens."""

    for_joiner: bool = True
    """False: it is an update for semi-passive backups, which have the former one."""


class StoreState(NamedTuple):
    """At a semi-passive backup: hold what was captured, so that RestoreState can be performed without
    whoever captured it, and then answer with StateStored. It may take a while; one at a time."""

    state: bytes


class RestoreState(NamedTuple):
    """Become the application that was captured: its threads are parked in the operations
    they had invoked, and are resumed by ResumeThread like those of a running one. Answer with StateStored
    when all that this takes is here; until then this replica does not take over (D-70)."""

    state: bytes


class ResetApplication(NamedTuple):
    """Forget the application: this replica rejoins its group as a new process would."""

    new_birth_wanted: bool = True
    withdrawn: ViewId = NO_VIEW
    """A view that it had proposed and not concluded; its new birth says so (`Started`)."""


class WriteRecord:
    """Write to the journal. What the core records becomes a record when somebody wants it: it records most at
    a change of the primary, when clients wait."""

    __match_args__: ClassVar = ("record",)

    def __init__(
        self,
        record: Record | None,
        kind: Any = None,
        time_ns: int = 0,
        group_id: GroupId = 0,
        birth_id: Any = None,
        view: Any = None,
        fields: Any = (),
    ) -> None:
        self._made = record
        self._kind = kind
        self._time_ns = time_ns
        self._group_id = group_id
        self._birth_id = birth_id
        self._view = view
        self._fields = fields

    @property
    def record(self) -> Record:
        made = self._made
        if made is None:
            if (batch := self.batch()) is not None:
                made = batch.records()[0]
            else:
                stamp = _new_tuple(Stamp, (self._time_ns, self._group_id, self._birth_id, self._view))
                made = _new_tuple(self._kind, (stamp, *self._fields))
            self._made = made
        return made

    def batch(self) -> Batch | None:
        """The same of `OPERATED_AS_TOLD`, as a row: its text, too, is made when somebody wants it."""
        if self._kind is not OPERATED_AS_TOLD:
            return None
        who = (self._group_id, self._birth_id, self._view)
        batch: Batch = _new_tuple(Batch, (self._time_ns, who, [(OPERATED, *self._fields)]))
        return batch


WriteBatch = Batch
"""Write all its records to the journal."""


class Stop(NamedTuple):
    """This replica has left its group and may end."""

    reason: str


Effect = (
    Multicast
    | Transmit
    | StartApplication
    | ResumeThread
    | StartThread
    | RepeatCall
    | CaptureState
    | StoreState
    | RestoreState
    | ResetApplication
    | WriteRecord
    | Batch
    | Stop
)


def setting_out(what: str, thread: ThreadId, argument: object) -> Effect:
    """Of a completion that gives a thread no result: it begins, or repeats its call."""
    if what == "repeat":
        return RepeatCall(thread)
    return StartApplication() if thread == MAIN_THREAD else StartThread(thread, argument)
