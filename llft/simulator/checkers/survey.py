"""The evidence, put in order once for all checkers: groups, their replicas' lives, their branches of views.

After a partition a group may have had two branches of primary views. The *surviving branch* is
the chain of views that ends in the view the group has at the end; a view's predecessor is the
view in which its primary was before. An operation is of the surviving branch if the view in which
it was numbered is, and if the next view of the chain begins after it. All else was pruned
(paper, Theorem 1, case 2), or performed by a primary that died before anybody heard of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from llft.config import Replication
from llft.identifiers import NO_VIEW, BirthId, ConnectionId, ViewId
from llft.journal.record import ConnectionEnded, Record, RoleChanged
from llft.simulator.checkers.life import NO_LIMIT, Life
from llft.simulator.evidence import Evidence, ProcessState

JOINING = "joining"
PRIMARY = "primary"
BACKUP = "backup"

OPEN = "open"
CLOSED = "closed"
RESET = "reset"


@dataclass(slots=True)
class Group:
    group_id: int
    semi_passive: bool = False
    lives: list[Life] = field(default_factory=list)
    processes: list[ProcessState] = field(default_factory=list)
    chain: list[ViewId] = field(default_factory=list)
    """The surviving branch, oldest view first."""
    starts: dict[ViewId, int] = field(default_factory=dict)
    """The order number at which each view was installed."""
    predecessors: dict[ViewId, ViewId] = field(default_factory=dict)
    fates: dict[ConnectionId, str] = field(default_factory=dict)
    """What became of each connection that the surviving branch knew: open, closed or reset."""
    strayed: set[ConnectionId] = field(default_factory=set)
    """The connections on which somebody wrote bytes that the surviving branch did not."""
    ended_astray: set[ConnectionId] = field(default_factory=set)
    """Those on which a primary that was superseded wrote an end that the surviving branch did not."""

    @property
    def living(self) -> list[ProcessState]:
        return [process for process in self.processes if process.alive]

    @property
    def primary(self) -> ProcessState | None:
        """The primary at the end: of several, the one whose view supersedes the others'."""
        best: ProcessState | None = None
        for process in self.living:
            if process.role == PRIMARY and (best is None or process.view.supersedes(best.view)):
                best = process
        return best

    def was_reset(self, connection: ConnectionId) -> bool:
        """Whether the surviving branch of this group knows that the connection was reset."""
        return self.fates.get(connection) == RESET

    def has_strayed_on(self, connection: ConnectionId) -> bool:
        """Whether a pruned branch went on with the connection: it wrote bytes, or ended it."""
        return connection in self.strayed or connection in self.ended_astray

    @property
    def has_pruned(self) -> bool:
        """Whether some replica performed operations that the surviving branch does not have."""
        return any(life.performed_count >= life.limit for life in self.lives)


@dataclass(slots=True)
class Survey:
    evidence: Evidence
    groups: dict[int, Group]

    def lives(self) -> Iterator[tuple[Group, Life]]:
        for group in self.groups.values():
            for life in group.lives:
                yield group, life


def survey(evidence: Evidence) -> Survey:
    groups: dict[int, Group] = {}
    for spec in evidence.topology.groups:
        semi_passive = spec.config.replication is Replication.SEMI_PASSIVE
        groups[spec.group_id] = Group(spec.group_id, semi_passive)
    for process in evidence.processes:
        groups.setdefault(process.group_id, Group(process.group_id)).processes.append(process)
    _file_records(evidence.records, groups)
    for group in groups.values():
        # Journals of a live run do not name it; but nobody else takes more than one state in a life.
        group.semi_passive |= any(len(life.applied) > 1 for life in group.lives)
        _trace_branches(group)
        for life in group.lives:
            life.limit = _limit(group, life)
        _trace_connections(group)
    return Survey(evidence, groups)


def _file_records(records: Sequence[Record], groups: dict[int, Group]) -> None:
    current: dict[BirthId, Life] = {}
    for record in records:
        stamp = record[0]
        life = current.get(stamp.birth_id)
        if life is None or (life.milestones and type(record) is RoleChanged and record.role == JOINING):
            life = current[stamp.birth_id] = Life(stamp.group_id, stamp.birth_id, stamp)
            groups.setdefault(stamp.group_id, Group(stamp.group_id)).lives.append(life)
        life.add(record)


def _trace_branches(group: Group) -> None:
    for life in group.lives:
        views = life.views
        for earlier, later in pairwise(views):
            if earlier.primary_view_num >= later.primary_view_num:
                continue
            if later.birth_id == life.birth_id:
                group.predecessors[later] = earlier
            else:
                group.predecessors.setdefault(later, earlier)
        for record in life.installed:
            if record.stamp.view.birth_id == life.birth_id:
                group.starts[record.stamp.view] = record.order_seq_num
            else:
                group.starts.setdefault(record.stamp.view, record.order_seq_num)
    view: ViewId | None = _end_view(group)
    while view is not None and view != NO_VIEW:
        group.chain.insert(0, view)
        view = group.predecessors.get(view)


def _end_view(group: Group) -> ViewId:
    """Of the primary at the end; of a group that has none left, the view that supersedes all others."""
    primary = group.primary
    if primary is not None:
        return primary.view
    best = NO_VIEW
    for life in group.lives:
        for view in life.views[-1:]:
            if best == NO_VIEW or view.supersedes(best):
                best = view
    return best


def _limit(group: Group, life: Life) -> int:
    views = life.views
    view: ViewId | None = views[-1] if views else None
    limit = NO_LIMIT
    while view is not None and view not in group.chain:
        limit = min(limit, group.starts.get(view, NO_LIMIT))
        view = group.predecessors.get(view)
    if view is None:
        return 1
    index = group.chain.index(view)
    if index + 1 < len(group.chain):
        limit = min(limit, group.starts.get(group.chain[index + 1], NO_LIMIT))
    return limit


def _trace_connections(group: Group) -> None:
    """Only a primary's word on the end of a connection counts: it is recorded with its order entry, a
    backup's before. The first word counts: an application that has closed cannot be told more."""
    ends: dict[ConnectionId, ConnectionEnded] = {}
    for life in group.lives:
        for sent in life.sent:
            if sent.order_seq_num < life.limit:
                group.fates[sent.connection] = OPEN
            elif sent.size:
                group.strayed.add(sent.connection)
            elif life.superseded and sent.position > 1:
                group.ended_astray.add(sent.connection)
        for delivered in life.surviving_delivered():
            group.fates[delivered.connection] = OPEN
        for ended in life.surviving_ended():
            if ended.stamp.view.birth_id == life.birth_id:
                first = ends.setdefault(ended.connection, ended)
                if ended.stamp.time_ns < first.stamp.time_ns:
                    ends[ended.connection] = ended
    for connection, ended in ends.items():
        group.fates[connection] = ended.how
