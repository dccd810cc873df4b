"""Hypothesis strategies for everything that travels: messages, bodies, order entries."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from llft.errors import PeerError
from llft.identifiers import BirthId, Member, Role, ViewId
from llft.wire import order
from llft.wire.messages import (
    Header,
    HeartbeatBody,
    MembershipAckBody,
    MembershipBody,
    Message,
    MessageFlag,
    MessageType,
    NackBody,
    NewPrimaryViewAckBody,
    NewPrimaryViewBody,
    OrderRange,
    ProposeBackupBody,
    ProposePrimaryBody,
    StateAckBody,
    StateBody,
)


def assert_explained(refusal: PeerError) -> None:
    assert refusal.condition
    assert refusal.remedy


def unsigned(bits: int) -> SearchStrategy[int]:
    """Mostly small, sometimes at the very end of the range."""
    top = (1 << bits) - 1
    return st.one_of(st.integers(0, 40), st.integers(0, top), st.sampled_from([0, 127, 128, top]))


def signed(bits: int) -> SearchStrategy[int]:
    top = 1 << (bits - 1)
    return st.one_of(st.integers(-20, 20), st.integers(-top, top - 1), st.sampled_from([-top, top - 1]))


u16, u32, u64 = unsigned(16), unsigned(32), unsigned(64)
births = st.builds(BirthId, u32, u32, u64)
views = st.builds(ViewId, u32, u32, births)
memberships = st.lists(st.builds(Member, births, u32), max_size=5).map(tuple)
fragments = st.integers(1, 65535).flatmap(lambda count: st.tuples(st.integers(0, count - 1), st.just(count)))


@st.composite
def headers(draw: st.DrawFn) -> Header:
    fragment_index, fragment_count = draw(fragments)
    return Header(
        message_type=draw(st.sampled_from(MessageType)),
        source_group_id=draw(u32),
        dest_group_id=draw(u32),
        conn_seq_num=draw(u32),
        role=draw(st.sampled_from(Role)),
        source_view=draw(views),
        dest_view=draw(views),
        view_base=draw(u64),
        view_start=draw(u64),
        flags=MessageFlag(draw(st.integers(0, 127))),
        fragment_index=fragment_index,
        fragment_count=fragment_count,
        msg_seq_num=draw(u32),
        ack_view_num=draw(u32),
        ack=draw(u32),
        back=draw(u64),
        timestamp=draw(u64),
        order_watermark=draw(u64),
        order_committed=draw(u64),
    )


messages = st.builds(
    Message,
    headers(),
    u64,
    st.binary(max_size=100),
    u64,
    st.binary(max_size=100),
    st.binary(max_size=300),
)

_positions = st.lists(st.tuples(u64, st.lists(u16, max_size=4).map(tuple)), max_size=6).map(tuple)
_ranges = st.lists(st.builds(OrderRange, views, u64, u64, st.binary(max_size=40)), max_size=5).map(tuple)

BODIES: dict[MessageType, SearchStrategy[object]] = {
    MessageType.NACK: st.builds(NackBody, births, u32, u32, u32, _positions, u64, u64),
    MessageType.HEARTBEAT: st.builds(HeartbeatBody, births, u64, u64, u64, u64, u64, u64),
    MessageType.PROPOSE_PRIMARY: st.builds(ProposePrimaryBody, births, views, u64, memberships, memberships),
    MessageType.PROPOSE_PRIMARY_ACK: st.builds(MembershipAckBody, births, views, u64, st.booleans(), u64),
    MessageType.MEMBERSHIP_ACK: st.builds(MembershipAckBody, births, views, u64, st.booleans(), u64),
    MessageType.NEW_PRIMARY_VIEW: st.builds(NewPrimaryViewBody, st.booleans(), u64, u64, u64),
    MessageType.NEW_PRIMARY_VIEW_ACK: st.builds(
        NewPrimaryViewAckBody, views, st.booleans(), st.booleans(), views, u64, u64, u64, _ranges
    ),
    MessageType.PROPOSE_BACKUP: st.builds(ProposeBackupBody, births, births, views, st.binary(max_size=40)),
    MessageType.ACCEPT_BACKUP: st.builds(MembershipBody, births, u64, u32, memberships, memberships),
    MessageType.REMOVE_BACKUP: st.builds(MembershipBody, births, u64, u32, memberships, memberships),
    MessageType.STATE: st.builds(StateBody, births, u64, u64, st.binary(max_size=200)),
    MessageType.STATE_ACK: st.builds(StateAckBody, births, u64),
    MessageType.HELD: st.builds(StateAckBody, births, u64),
}
typed_bodies = st.sampled_from(sorted(BODIES)).flatmap(lambda kind: st.tuples(st.just(kind), BODIES[kind]))

_picks = st.one_of(st.just(7), st.integers(0, 9), u64)
_threads = st.one_of(st.just(1), st.integers(0, 4), u32)
_fds = st.one_of(st.just(3), st.integers(0, 5), u32)
_counts = st.one_of(st.integers(0, 6), u64)
_data = st.one_of(st.binary(max_size=20), st.sampled_from([127, 128, 65535]).map(bytes))
_sizes = st.one_of(st.sampled_from([5, 64, 1000]), st.integers(0, 1 << 31))

entries: SearchStrategy[order.Entry] = st.one_of(
    st.tuples(st.just(order.READ), _picks, _threads, _fds, _sizes),
    st.tuples(st.just(order.SEND), _picks, _threads, _fds, u64, u32),
    st.tuples(st.just(order.MUTEX), _picks, _threads, st.integers(0, 3) | u64, _counts, signed(64)),
    st.tuples(st.just(order.TIME), _picks, _threads, st.integers(0, 2) | signed(32), signed(64)),
    st.tuples(st.just(order.SOCKET), _picks, _threads, _fds, _counts, _data),
    st.tuples(st.just(order.GENERAL), _picks, _threads, st.integers(0, 3) | u64, _counts, _data),
    st.tuples(st.sampled_from((order.WAKE, order.CHECKPOINT)), _picks, _threads),
    st.tuples(st.just(order.PRIMARY_VIEW), views, st.lists(st.tuples(u32, u64), max_size=4).map(tuple)),
    st.tuples(st.just(order.REMOTE_VIEW), u32, views, u64),
    st.tuples(st.just(order.CONNECTION), unsigned(8), u32, u32, u32, u32),
)


@st.composite
def merging_entries(draw: st.DrawFn) -> list[order.Entry]:
    """A few identical READs, or SENDs with consecutive timestamps: what merges."""
    length = draw(st.integers(1, 5) | st.sampled_from([130, 300]))
    pick, thread, fd = draw(_picks), draw(_threads), draw(_fds)
    if draw(st.booleans()):
        return [(order.READ, pick, thread, fd, draw(_sizes))] * length
    first = draw(st.integers(0, (1 << 64) - 400))
    digests = draw(st.lists(u32, min_size=length, max_size=length)) if length < 9 else range(length)
    return [(order.SEND, pick, thread, fd, first + step, digest) for step, digest in enumerate(digests)]


sequences = st.lists(merging_entries() | entries.map(lambda entry: [entry]), max_size=30).map(
    lambda pieces: [entry for piece in pieces for entry in piece]
)
