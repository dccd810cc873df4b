"""What has become of a dialogue (`core.dialogue`), and how the core takes it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from llft.core.determinizer.token import TokenEngine
from llft.core.dialogue_beats import BeatLender, MadeBeats, made_beats
from llft.core.dialogue_connection import OfConnection
from llft.core.dialogue_fellow import Fellows, MadeFellow
from llft.core.dialogue_remote import MadeRemote, take_held
from llft.core.dialogue_threads import MadeThreads, Threads, made_threads
from llft.core.messaging.connection import Connection
from llft.core.messaging.kept import ReceivedMessage, SentMessage, next_key
from llft.instant import NEVER
from llft.journal.record import Collected
from llft.wire.order import OrderContext, OrderDecoder

if TYPE_CHECKING:
    from llft.core.replica import Replica


class Numbers(NamedTuple):
    """What has become of what was lent: of replica and order log."""

    last_ns: int
    calls: int
    pick: int
    entry_count: int
    context_pick: int
    context_thread: int
    context_fd: int
    context_timestamp: int
    context_clock_id: int
    local_0: int
    local_1: int
    local_2: int
    """At a backup: the local clocks when they were read last."""
    coded_0: int
    coded_1: int
    coded_2: int
    own_offset: int
    """At a primary up to where the log is reflected, at a backup up to where it is performed."""
    order_committed: int
    clock: int
    entries_used: int
    """At a backup: of those that were lent."""
    bytes_decoded: int
    """Of the log, behind the entries that were lent."""


class MadeConnection(NamedTuple):
    """Of one that something was heard or said on."""

    place: int
    numbers: tuple[int, ...]
    """`OfConnection`."""
    received: list[ReceivedMessage]
    delivered: list[ReceivedMessage]
    marks: list[tuple[int, int, int]]
    """Of those that were delivered: the offset of the order log that says so, position and timestamp."""
    known: list[tuple[int, int]]
    """Of some of them: position, and the checksum of the payload."""
    sent: list[SentMessage]
    fragment_count: int
    fragments: list[bytes]
    """Of the next message, if it has begun to come: how many it has, and those that are here."""


class Made(NamedTuple):
    """What has become of it."""

    calls: int
    numbers: Numbers
    connections: list[MadeConnection]
    remotes: list[MadeRemote]
    counts: list[tuple[int, int, int, int]]
    """Of counted entries: kind, identifier, N, and what the next one is coded against."""
    orders: bytes
    foreign: list[Any]
    births_placed: int
    """Bytes of the birth log that are where it lent room for them."""
    births: list[bytes]
    """And those that follow, in pieces."""
    births_digest: int
    """Of all of that log, with them."""
    journal: list[tuple[bytes, int, int]]
    """Frames of the journal, how many records each has, and the time of the first."""
    readings: list[tuple[int, list[int]]]
    witnessed: list[tuple[int, int, int, bool]]
    """If somebody compares what the program calls: kinds of calls, descriptors, and limits, clocks or sizes;
    whether it would not have waited."""
    selected: list[tuple[tuple[int, ...], int, tuple[int, ...], bool]]
    """The same of its selects."""
    threads: MadeThreads | None
    """None: the thread that it was lent to runs, and the others are where they were."""
    fellow: MadeFellow | None
    beats: MadeBeats | None


def made_of(told: tuple[Any, ...]) -> Made:
    """Of what C tells."""
    calls, numbers, connections, remotes, *rest, threads, fellow, beats = told
    rest.append(made_threads(threads))
    rest.append(None if fellow is None else MadeFellow(*fellow))
    rest.append(made_beats(beats))
    return Made(
        calls,
        Numbers(*numbers),
        [MadeConnection(*each) for each in connections],
        [MadeRemote(*each) for each in remotes],
        *rest,
    )


class Taker:
    def __init__(self, replica: Replica, beats: BeatLender) -> None:
        self._replica, self._beats = replica, beats
        self._messaging = replica.messaging
        self._engine = replica.determinizer.engine
        self._fellows, self._threads = Fellows(replica), Threads(replica)

    def take_in(self, connections: list[Connection], made: Made) -> None:
        """The replica is afterwards as if it had been stepped with all of it, but for the settling."""
        replica, now = self._replica, made.numbers
        replica.now_ns = replica.outbox.now_ns = replica.last_step_ns = now.last_ns
        self._go_on(now)
        if made.threads is not None:
            self._threads.take(made.threads)
        groups = list(dict.fromkeys([connection.remote_group_id for connection in connections]))
        for each in made.connections:
            connection, after = connections[each.place], OfConnection(*each.numbers)
            self._take_connection(connection, each, after)
            self._arm(connection, after)
        if replica.live:
            self._take_orders_live(made, now)
        else:
            self._take_orders_logged(made, now)
        for remote in made.remotes:
            take_held(self._messaging.lane.held[groups[remote.place]], remote)
        if made.fellow is not None:
            self._fellows.take(made.fellow)
        if made.beats is not None:
            self._beats.take(made.beats)
        if not replica.live:
            self._pass_barriers()

    def _pass_barriers(self) -> None:
        """Behind what was performed: the thread may compute for long, and a promotion waits for all of it."""
        assert isinstance(self._engine, TokenEngine)
        self._engine.pass_barriers()

    def _go_on(self, now: Numbers) -> None:
        engine, lane = self._engine, self._messaging.lane
        assert isinstance(engine, TokenEngine)
        engine.scheduler.calls = now.calls
        engine.scheduler.pick_count = engine.outside.pick = now.pick
        lane.clock.value = now.clock
        lane.order_committed = now.order_committed

    def _take_connection(self, connection: Connection, made: MadeConnection, now: OfConnection) -> None:
        c = connection
        self._take_fragments(c, made, now.received_up_to)
        c.received_bytes = now.received_bytes
        c.delivered_bytes, c.read_offset = now.delivered_bytes, now.read_offset
        c.delivered_position, c.delivered_timestamp = now.delivered_position, now.delivered_timestamp
        c.delivered_digest, c.sent_digest = now.delivered_digest, now.sent_digest
        c.ack_told, c.acked_in_view, c.generated = now.ack_told, now.acked_in_view, now.generated
        if now.acked > c.acked:
            c.acked, c.first_acks_heard = now.acked, 0
        if now.gone_first:
            self._forget(c, now)
        c.delivered.extend(made.delivered)
        c.marks.extend(made.marks)
        for position, checksum in made.known:
            c.forgotten.know(position, checksum)
        c.received.clear()
        c.received.extend(made.received)
        if made.delivered:
            self._messaging.indexes.marked.note(c)
        self._take_sent(c, made.sent, now.remote_watermark)
        if self._replica.live:
            c.transmitted = c.generated
            return
        c.ordered_sends += now.sends_decoded
        if now.read_decoded:
            c.ordered_position, c.ordered_bytes = c.delivered_position, c.delivered_bytes
            c.ordered_partial = c.read_offset

    def _forget(self, connection: Connection, now: OfConnection) -> None:
        """What all members had meanwhile is not here any more, nor what came before it."""
        c, replica = connection, self._replica
        c.marks.clear()
        while c.delivered:
            c.forgotten.forget(c.delivered.popleft())
        c.forgotten.forget_many(now.gone_first, now.gone_last, now.gone_bytes, now.gone_checksum)
        c.members_timestamp = now.members_timestamp
        replica.outbox.note((Collected, c.connection_id, "delivered", c.members_timestamp))
        if replica.live:
            self._messaging.keep_alives.on_collected(c, now.heard_ns)

    def _take_fragments(self, connection: Connection, made: MadeConnection, received_up_to: int) -> None:
        reassembly = self._messaging.reassembly
        reassembly.drop(next_key(connection))
        connection.received_up_to = received_up_to
        for index, fragment in enumerate(made.fragments):
            reassembly.add(next_key(connection), index, made.fragment_count, fragment)

    def _take_sent(self, connection: Connection, sent: list[SentMessage], remote_watermark: int) -> None:
        """What all members of the remote group have by now is not kept at all."""
        c = connection
        c.remote_watermark = remote_watermark
        c.sent.extend(sent)
        for message in sent:
            c.sent_bytes += len(message.payload)
        c.collect_sent(remote_watermark)
        if len(c.sent) > self._messaging.peak_sent_count:
            self._messaging.peak_sent_count = len(c.sent)
        if sent and self._replica.live:
            self._messaging.indexes.unacknowledged.note(c)

    def _take_context(self, context: OrderContext, made: Made, now: Numbers) -> None:
        context.pick, context.thread = now.context_pick, now.context_thread
        context.fd, context.timestamp = now.context_fd, now.context_timestamp
        coded = (now.coded_0, now.coded_1, now.coded_2)
        local = (now.local_0, now.local_1, now.local_2)
        outside = self._engine.outside
        for clock_id, values in made.readings:
            if coded[clock_id] != context.clocks.get(clock_id, 0):
                context.note_clock(clock_id, coded[clock_id])
            if self._replica.live:
                outside.clock.read_on(clock_id, values)
            else:
                outside.clock.observe_on(clock_id, values, local[clock_id])
        context.clock_id = now.context_clock_id
        for kind, identifier, count, coded_count in made.counts:
            # None of them is the first of its kind: their places in these tables stay.
            outside.counts[kind, identifier] = count
            context.counts[identifier << 4 | kind] = coded_count

    def _take_orders_live(self, made: Made, now: Numbers) -> None:
        lane = self._messaging.lane
        encoder = lane.encoder
        assert encoder is not None
        self._engine.outside.recorded_count += now.entry_count - encoder.count
        encoder.go_on(len(made.orders), now.entry_count)
        self._take_context(encoder.context, made, now)
        lane.orders.append(made.orders)
        lane.orders.mark_reflected(lane.orders.unreflected, now.own_offset)

    def _take_orders_logged(self, made: Made, now: Numbers) -> None:
        replica, engine, cursor = self._replica, self._engine, self._replica.cursor
        assert isinstance(engine, TokenEngine) and cursor is not None
        self._messaging.lane.orders.append(made.orders)
        context = cursor.decoder.context
        self._take_context(context, made, now)
        for _ in range(now.entries_used):
            engine.log.popleft()
        performed = now.entry_count - replica.followed_base - engine.consumed_count
        read_on = performed - now.entries_used
        engine.consumed_count += performed
        engine.followed_count += read_on
        if replica.outbox.journalling:
            replica.journalled += performed
        if now.bytes_decoded:
            cursor.decoder = OrderDecoder(context, now.own_offset, cursor.decoder.count + read_on)
            cursor.passed_count += read_on
            cursor.fed = cursor.watermark = now.own_offset

    def _arm(self, connection: Connection, now: OfConnection) -> None:
        """Timers, and what else whoever hears or speaks disturbs."""
        messaging = self._messaging
        messaging.indexes.touched.note(connection.fd)
        if now.heard_ns != connection.heard_ns:
            connection.heard_ns = now.heard_ns
            messaging.keep_alives.disturb(connection, now.heard_ns)
        connection.ack_due_ns = now.ack_due_ns
        if not self._replica.live:
            return
        connection.retransmit_ns = now.retransmit_ns
        if now.said_ns:
            messaging.keep_alives.on_transmit(connection, now.said_ns)
        for timer, at_ns in (("ack_due_ns", now.ack_due_ns), ("retransmit_ns", now.retransmit_ns)):
            if at_ns != NEVER:
                messaging.arm(connection, timer, at_ns)
