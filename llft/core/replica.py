"""A replica: the three protocols composed, behind `step(event, now) -> effects`.

The contract with the shell (runtime or another world):
 - `step` takes one event and the local monotonic time, and returns what is to be done, in order.
 - `at_once` completes a thread's call without one, if it can; `drain` says what is to be done for it.
 - `next_deadline` says when DeadlinePassed is due at the latest.
 - After ResetApplication this object is dead: a new process with a new birth id takes its place.

Nothing is decided here that belongs to a protocol: this module only passes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from llft.config import PAUSE_INTERVALS, GroupConfig, Replication
from llft.core import events
from llft.core.asking import Asking
from llft.core.at_once import AtOnce, Run
from llft.core.determinizer.determinizer import Determinizer
from llft.core.dialogue import Dialogue
from llft.core.effects import (
    CaptureState,
    Effect,
    ResetApplication,
    RestoreState,
    ResumeThread,
    Stop,
    setting_out,
)
from llft.core.inbox import Inbox
from llft.core.intra_group import IntraGroup
from llft.core.membership.backup_change import Commit, Joining
from llft.core.membership.fault_detector import FaultDetector
from llft.core.membership.primary_change import PrimaryChange
from llft.core.messaging.acknowledgment import Acknowledgment
from llft.core.messaging.connection import Connection
from llft.core.messaging.messaging import Messaging
from llft.core.messaging.ordering import Cursor
from llft.core.messaging.retention import Retention
from llft.core.outbox import Outbox
from llft.core.reticence import Reticence
from llft.core.semi_passive import SemiPassive
from llft.core.standing import BACKUP, LEFT, PRIMARY, PROPOSING, RECOVERING, Standing
from llft.core.state_transfer import StateTransfer
from llft.core.statistics import statistics_of
from llft.core.timers import Timers
from llft.core.view_change import ViewChange
from llft.core.virtual_sockets import VirtualSockets
from llft.errors import DivergenceError, PeerError
from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId, Member, ViewId
from llft.journal.record import MembershipChanged, RoleChanged
from llft.wire.messages import (
    UNSETTLED,
    Body,
    MembershipAckBody,
    MessageFlag,
    MessageType,
    StateAckBody,
    StateBody,
)
from llft.wire.order import SEND, Entry, OrderContext, OrderEncoder

_INVOKED: Final[Any] = events.OperationInvoked  # a constant is not looked up by its name
_ENDED: Final[Any] = events.ThreadEnded
_RECEIVED: Final[Any] = events.MessageReceived
_DIED: Final[Any] = events.PeerDied


class RandomSource(Protocol):
    def randbytes(self, n: int, /) -> bytes: ...


class Replica:
    def __init__(
        self,
        config: GroupConfig,
        birth_id: BirthId,
        *,
        local_clock: Callable[[int], int],
        random: RandomSource,
        journalling: bool = True,
    ) -> None:
        self.config = config
        self.now_ns = self.last_step_ns = 0
        self.standing = Standing(config, birth_id)
        self.outbox = Outbox(self.standing, journalling=journalling)
        self.messaging = Messaging(config, self.standing, self.outbox)
        self.detector = FaultDetector(config.timeouts)
        self.intra, self.asking = IntraGroup(self), Asking(self)
        self.acknowledgment = Acknowledgment(self.messaging)
        self.retention = Retention(self.messaging, self.intra.send)
        self.joining = Joining(self.standing, self, self.outbox)
        self.commit = Commit(self.standing, self.detector, self, self.outbox)
        self.primary_change = PrimaryChange(self.standing, self.detector, self, self.outbox)
        self.view_change = ViewChange(self)
        self.sockets = VirtualSockets(self)
        self.transfer, self.reticence = StateTransfer(self), Reticence(self)
        self.semi_passive, self.inbox, self.timers = SemiPassive(self), Inbox(self), Timers(self)
        self.determinizer = Determinizer(
            config.threads, self.sockets, self.record, local_clock, random.randbytes
        )
        self.determinizer.on_consumed = self.on_consumed
        self.live = False
        """True at a primary: results come from outside and are recorded."""
        self.cursor: Cursor | None = None
        self.lineage: list[ViewId] = []
        self.performed_view: ViewId = NO_VIEW
        """The view whose beginning the application has passed."""
        self.followed_base = self.journalled = 0
        self.overtaken: dict[int, Entry] = {}
        self.joiner_log: deque[bytes] = deque(maxlen=config.limits.joiner_log_messages)
        self.pause_ns = PAUSE_INTERVALS * config.timeouts.heartbeat_interval_ns
        self.next_deadline, self.drain = self.timers.next_deadline, self.outbox.drain
        self.at_once, self.run, self.dialogue = AtOnce(self).call, Run(self), Dialogue(self)
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.ThreadEnded: lambda event: self.determinizer.thread_ended(event.thread),
            events.DeadlinePassed: lambda event: self.timers.on_deadline(),
            events.Started: self._on_started,
            events.PeerStopped: lambda event: self.timers.on_stopped(event.birth_id),
            events.PeerRuns: lambda event: self.timers.on_running(event.birth_id),
            events.StateCaptured: lambda event: self.transfer.on_state_captured(event.state),
            events.HistoryBegun: lambda event: self.asking.durability.begin_history(),
            events.StateStored: lambda event: self.semi_passive.on_stored(held=event.held),
            events.SwitchRequested: lambda event: self.reticence.request_switch(),
            events.LeaveRequested: lambda event: self.reticence.request_leave(),
        }

    # -- the contract ----------------------------------------------------------------------------

    def step(self, event: events.Event, now_ns: int) -> list[Effect]:
        if self.standing.role == LEFT:
            return []
        self.now_ns = self.outbox.now_ns = now_ns
        if now_ns - self.last_step_ns > self.pause_ns:
            self.timers.notice_pause(now_ns - self.last_step_ns)
        self.last_step_ns = now_ns
        try:
            fields: tuple[Any, ...] = event
            kind: Any = type(event)
            if kind is _INVOKED:
                self.determinizer.invoke(fields[0], fields[1], now_ns)
            elif kind is _RECEIVED:
                self.inbox.on_datagram(fields[0])
            elif kind is _DIED:
                self.timers.on_certificate(fields[0])
            else:
                self._handlers[kind](event)
            self.settle(from_outside=kind is not _INVOKED and kind is not _ENDED)
        except DivergenceError as error:
            self.reset_and_rejoin(f"diverged: {error}")
        return self.outbox.drain()

    @property
    def role(self) -> str:
        return self.standing.role

    @property
    def view(self) -> ViewId:
        return self.standing.view

    @property
    def membership(self) -> tuple[Member, ...]:
        return self.standing.membership

    @property
    def has_state(self) -> bool:
        return self.standing.has_state

    @property
    def executed(self) -> int:
        """As others hear of it: where disks count, without a gap (in ordered mode entries overtake)."""
        return self.journalled if self.asking.durability.wanted and not self.live else self.performed_count

    @property
    def performed_count(self) -> int:
        """Entries of the order log that this replica has performed."""
        encoder = self.messaging.lane.encoder
        if encoder is not None:
            return encoder.count
        if self.cursor is not None and self._logs_only():
            return self.cursor.passed_count
        return self.followed_base + self.determinizer.consumed_count

    def statistics(self) -> dict[str, int]:
        return statistics_of(self)

    # -- after every event -----------------------------------------------------------------------

    def settle(self, *, from_outside: bool) -> None:
        """Let everything go as far as it can, then hand completions to the shell. What the application
        did itself brings no news from outside."""
        standing, engine, asking = self.standing, self.determinizer.engine, self.asking
        if self.live:
            held = self.messaging.silent or self._must_slow_down()
            if from_outside or held != engine.held:
                engine.held = held
                if not held and not engine.rests:
                    engine.poke(self.now_ns)
            if self.messaging.waiting_for_backups:
                self.asking.serve()
        elif self.cursor is not None:
            if from_outside:
                self.follow_log()
            if self.view_change.recovery is not None:
                self.view_change.progress()
        engine.rests = False
        if asking.answer_wanted or asking.holding.wanted_end:
            asking.answer_at_once()
        if self.reticence.switch_at >= 0:
            self.reticence.switch_if_ready()
        if engine.completions and standing.role != LEFT:  # whoever has reset gives its program nothing more
            self.hand_out_completions()
        if asking.durability.wanted:
            asking.answer()
        if self.transfer.recipients and standing.role == PRIMARY and not self.reticence.silent:
            self.outbox.effects.append(CaptureState(self.transfer.recipients != [NO_BIRTH]))

    def hand_out_completions(self) -> None:
        for what, thread, value in self.determinizer.drain():
            if what == "resume":
                self.outbox.effects.append(tuple.__new__(ResumeThread, (thread, value)))
            else:
                self.outbox.effects.append(setting_out(what, thread, value))

    def _must_slow_down(self) -> bool:
        """Intra-group flow control: no new order information now."""
        lane = self.messaging.lane
        return self.messaging.flow.engaged(
            order_end=lane.orders.end, group_watermark=lane.group_watermark, now_ns=self.now_ns
        )

    # -- the order log -------------------------------------------------------------------------

    def record(self, entry: Entry) -> None:
        """At the primary: an operation has returned; the log says so (determinizer, line 28)."""
        lane = self.messaging.lane
        lane.record(entry)
        if self.outbox.journalling:
            assert lane.encoder is not None
            if entry[0] == SEND:
                self.sockets.journal_sent(lane.encoder.count)
            self.outbox.note_entry(lane.encoder.count, entry)
        connection = self.sockets.unsent
        if connection is not None:
            self.sockets.unsent = None
            self.messaging.push(connection)

    def on_consumed(self, number: int, entry: Entry) -> None:
        """At a backup: it performed an entry. In ordered mode entries of different operations may
        overtake one another; the journal has them in the order of the log."""
        if not (self.outbox.journalling or self.config.durable):
            return
        number += self.followed_base
        if entry[0] == SEND:
            self.sockets.journal_sent(number)
        self.overtaken[number] = entry
        while (waiting := self.overtaken.pop(self.journalled + 1, None)) is not None:
            self.journalled += 1
            self.outbox.note_entry(self.journalled, waiting)

    def follow_log(self) -> None:
        """At a backup, or while recovering: pass on what can be performed."""
        cursor, to = self.cursor, self.determinizer
        if cursor is None or self.live:
            return
        try:
            if self._logs_only():
                cursor.advance(self.semi_passive.log_entry)
                self.semi_passive.apply_pending_update()
            elif not cursor.is_idle:
                cursor.advance(lambda entry, _: to.follow(entry), to.follow_all, to.follow_locks)
        except PeerError as error:
            self.reset_and_rejoin(f"order information is damaged: {error}")

    def _logs_only(self) -> bool:
        return self.config.replication is Replication.SEMI_PASSIVE and self.standing.role != RECOVERING

    def begin_following(self, context: OrderContext, offset: int, count: int) -> None:
        self.cursor = Cursor(self.messaging, context, offset, count)
        self.begin_performing(count)

    def begin_performing(self, count: int) -> None:
        """The application is where the log had `count` entries."""
        self.followed_base = self.journalled = count

    def own_watermark(self) -> int:
        """myTimestampWatermark, as an offset of the order stream."""
        if self.live:
            return self.messaging.lane.orders.end
        return self.cursor.watermark if self.cursor is not None else 0

    def update_watermarks(self) -> None:
        """At the primary: a backup reported, or the membership changed."""
        lane = self.messaging.lane
        lane.flush()
        retained = lane.orders.end - lane.orders.start
        self.messaging.peak_order_bytes = max(self.messaging.peak_order_bytes, retained)
        watermarks = self.messaging.watermarks
        self.messaging.apply_group_watermark(watermarks.group_watermark(lane.orders.end))
        self.asking.note_commit()
        for connection in self.messaging.indexes.held_back:
            self.messaging.push(connection)

    # -- membership port -------------------------------------------------------------------------

    def send_local(
        self,
        message_type: MessageType,
        body: Body,
        flags: MessageFlag = MessageFlag.NONE,
        to: BirthId | None = None,
    ) -> None:
        self.intra.send(message_type, body, flags, to)

    def order_end(self) -> int:
        return self.messaging.lane.orders.end

    def _on_started(self, event: events.Started) -> None:
        self.outbox.record(RoleChanged, self.standing.role, "started")
        self.transfer.past = event.past
        if event.alone:
            self.joining.become_first_member()
        else:
            self.joining.start(may_found=event.may_found, former=event.former, withdrawn=event.withdrawn)

    def become_first_member(self) -> None:
        """Backup change, line 11."""
        standing = self.standing
        standing.view = ViewId(1, 1, standing.birth_id)
        standing.membership = (Member(standing.birth_id, 1),)
        standing.next_precedence = 2
        standing.has_state = standing.has_past = True
        standing.view_start = 0
        standing.role = PRIMARY
        self.messaging.lane.encoder = OrderEncoder(OrderContext())
        self.outbox.record(RoleChanged, PRIMARY, "first member")
        self.outbox.record(MembershipChanged, standing.change_num, standing.membership)
        self.view_change.entries.record()
        resumed = self.transfer.resume()
        self.become_primary()
        if not resumed:
            self.determinizer.start()
        self.joiner_log.clear()

    def become_primary(self) -> None:
        """Results come from outside from now on; application threads never notice."""
        standing = self.standing
        self.live = True
        self.cursor = None
        for member in standing.membership:
            standing.next_precedence = max(standing.next_precedence, member.precedence + 1)
        backups, without_state = standing.backups, self.primary_change.members_without_state()
        self.detector.watch(backups, self.now_ns)
        for backup in backups:
            self.detector.restart(backup, self.now_ns)
            if backup in without_state:
                self.transfer.want(backup)
            else:
                self.messaging.watermarks.admit(backup, self.messaging.lane.group_watermark)
        self.asking.durability.begin_primary([b for b in backups if b not in without_state])
        for connection in self.messaging.table:
            self.mark_delivered(connection)
        self.messaging.uncache()
        self.messaging.indexes.become_primary()
        self.determinizer.go_live(self.now_ns, connected=len(self.messaging.table) > 0)
        self.timers.start_primary(self.now_ns)
        self.update_watermarks()

    def accepted(self) -> None:
        """Backup change, lines 16-19: a member now, which waits for its State."""
        standing = self.standing
        self.detector.watch([member.birth_id for member in standing.membership], self.now_ns)
        self.detector.restart(standing.view.birth_id, self.now_ns)
        self.timers.start_backup(self.now_ns)
        self.acknowledge_membership()

    def acknowledge_membership(self) -> None:
        standing = self.standing
        ack = MembershipAckBody(
            standing.birth_id,
            standing.view,
            standing.change_num,
            not standing.has_state,
            self.order_end(),
        )
        self.intra.send(MessageType.MEMBERSHIP_ACK, ack, to=standing.view.birth_id)

    def reset_and_rejoin(self, reason: str) -> None:
        """The paper regards a process that recovers as a new one, with a new birth id."""
        if self.standing.role == LEFT:
            return
        withdrawn = self.standing.view if self.standing.role == PROPOSING else NO_VIEW
        self.standing.role = LEFT
        self.outbox.record(RoleChanged, LEFT, reason)
        leaving = self.reticence.leaving_since_ns
        self.outbox.effects.append(Stop(reason) if leaving else ResetApplication(withdrawn=withdrawn))

    def view_adopted(self) -> None:
        """A new primary was acknowledged: its order information counts from now on, no other."""
        self.standing.view_start = UNSETTLED
        if self.standing.view not in self.lineage:
            self.lineage.append(self.standing.view)
        self.messaging.lane.orders.forget_early()
        self.semi_passive.pending_update = None  # it may be of a history that nobody continued
        self.messaging.uncache()
        self.intra.heard_beat = self.intra.order_known_to_exist = 0
        self.asking.forget_questions()
        self.reticence.switch_at = -1

    def has_followed(self, view: ViewId) -> bool:
        return view in self.lineage

    def data_view_matches(self, old_view: object) -> bool:
        """Whether the views acknowledged since `old_view` have given this replica nothing."""
        return old_view in self.lineage and self.standing.view_start == UNSETTLED

    def start_recovery(self, order_ends: dict[BirthId, int]) -> None:
        self.timers.start_backup(self.now_ns)
        self.view_change.start(order_ends, self.primary_change.old_view)
        self.view_change.progress()

    def tell_removed(self, stranger: BirthId) -> None:
        self.commit.tell_removed(stranger)

    def membership_changed(self) -> None:
        self.messaging.watermarks.keep_only(self.standing.backups)
        if not self.standing.backups:
            self.reticence.end_doubt()
        self.update_watermarks()
        self.asking.membership_changed()

    def membership_committed(self, need_state: list[BirthId]) -> None:
        """Backup change, lines 39-42."""
        for backup in need_state:
            if backup not in self.transfer.unacknowledged:
                self.transfer.want(backup)

    # -- state at a backup -------------------------------------------------------------------------

    def on_state(self, body: StateBody) -> None:
        if body.recipient == NO_BIRTH:
            if self.standing.has_state and self.config.replication is Replication.SEMI_PASSIVE:
                self.semi_passive.on_update(body)
            return
        if body.recipient != self.standing.birth_id or self.standing.role != BACKUP:
            return
        if not self.standing.has_state:
            self._become_what_the_state_says(self.transfer.load(body))
        self.acknowledge_state(body)

    def acknowledge_state(self, body: StateBody) -> None:
        ack = StateAckBody(self.standing.birth_id, body.order_offset)
        self.intra.send(MessageType.STATE_ACK, ack, to=self.standing.view.birth_id)

    def _become_what_the_state_says(self, state: dict[str, Any]) -> None:
        """Backup change, lines 20-21."""
        self.transfer.adopt(state)
        self.standing.has_state = True
        if self.standing.view not in self.lineage:
            self.lineage.append(self.standing.view)
        if self.config.replication is Replication.SEMI_PASSIVE:
            self.semi_passive.on_joined(state)
        else:
            self.determinizer.restore(state["determinizer"], self.now_ns)
            self.outbox.effects.append(RestoreState(state["application"]))
        logged = list(self.joiner_log)
        self.joiner_log.clear()
        for data in logged:
            self.inbox.on_datagram(data)
        self.asking.answer_wanted = True

    # -- connections ---------------------------------------------------------------------------------

    def reset_connection(self, connection: Connection, reason: str) -> None:
        if connection.reset_reason:
            return
        self.messaging.send_control(connection, MessageType.KEEP_ALIVE, flags=MessageFlag.RESET)
        self.sockets.reset(connection, reason)

    def drop_unread(self, connection: Connection) -> None:
        """The application closed the connection: what it has not read, nobody needs. The remote group may
        forget it when all members know of the close, and so of all that was read before it."""
        if not connection.received:
            return
        last = connection.received[-1]
        connection.delivered_bytes = connection.received_bytes
        connection.keep_partly_read()
        connection.received.clear()
        connection.read_offset = 0
        connection.delivered_position = last.position
        connection.delivered_timestamp = last.timestamp
        connection.delivered_view = last.view

    def mark_delivered(self, connection: Connection) -> None:
        encoder = self.messaging.lane.encoder
        if encoder is not None and connection.delivered_position:
            mark = (encoder.offset, connection.delivered_position, connection.delivered_timestamp)
            connection.marks.append(mark)
            self.messaging.indexes.marked.note(connection)

    def deadline_hint(self, at_ns: int) -> None:
        self.messaging.soonest_ns = min(self.messaging.soonest_ns, at_ns)
