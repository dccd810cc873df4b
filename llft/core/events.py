"""What can happen to a replica. Events are past tense; `Replica.step` takes one."""

from __future__ import annotations

from typing import NamedTuple

from llft.core.determinizer.operations import Operation
from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId, ThreadId, ViewId


class Started(NamedTuple):
    """The process is up and wants to join its group. `alone` skips the search for an existing group (paper,
    backup change, line 11): for an operator who knows. A process that takes the place of one
    that was a member may not found the group anew (`may_found`): it would do so with empty hands."""

    alone: bool = False
    may_found: bool = True
    former: BirthId = NO_BIRTH
    """Who this process was before it reset."""
    withdrawn: ViewId = NO_VIEW
    """Of its ResetApplication."""
    past: bytes = b""
    """With `alone`: the application is there already, where an earlier group ended (`resumption`)."""


class MessageReceived(NamedTuple):
    """A datagram arrived, whatever it is."""

    data: bytes


class DeadlinePassed(NamedTuple):
    """The instant that `next_deadline()` named has come."""


class OperationInvoked(NamedTuple):
    """An application thread called something interposed, and waits for a ResumeThread."""

    thread: ThreadId
    operation: Operation


class ThreadEnded(NamedTuple):
    """An application thread returned from its function."""

    thread: ThreadId


class PeerDied(NamedTuple):
    """A death certificate (D-23): the kernel of that process says it is gone."""

    birth_id: BirthId


class PeerStopped(NamedTuple):
    """That process was not heard for three heartbeats at least, and its kernel says that it is stopped: it
    cannot speak now (D-73). It may go on later, so this is no certificate."""

    birth_id: BirthId


class PeerRuns(NamedTuple):
    """It was not heard for as long, and its kernel says that it is neither dead nor stopped: it does not get
    a processor (D-73)."""

    birth_id: BirthId


class StateCaptured(NamedTuple):
    """The answer to CaptureState, given before any application thread ran on."""

    state: bytes


class StateStored(NamedTuple):
    """The answer to StoreState, and to the RestoreState of a joiner: this process needs nobody else to be
    what was captured. Not `held`: it could not be had, and what was held before still is."""

    held: bool


class HistoryBegun(NamedTuple):
    """What the program of this replica is given from now on is on disk before anything leaves that follows
    from it (D-71)."""


class SwitchRequested(NamedTuple):
    """An operator wants the backup of rank 2 to take over from this primary."""


class LeaveRequested(NamedTuple):
    """An operator wants this replica to go, without a gap."""


Event = (
    Started
    | MessageReceived
    | DeadlinePassed
    | OperationInvoked
    | ThreadEnded
    | PeerDied
    | PeerStopped
    | PeerRuns
    | StateCaptured
    | StateStored
    | HistoryBegun
    | SwitchRequested
    | LeaveRequested
)
