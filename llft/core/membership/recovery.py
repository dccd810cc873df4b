"""Change of the primary, second phase: what did the old primary do? (lines 26-41, D-07)

    collecting   ask the remote group of each connection, and the members that acknowledged, for the order
                 information they hold; until all have answered, or a bound has passed
    performing   follow that order information, asking for messages that are missing; until the
                 end of it, or a bound has passed without a step forward (then the virtual synchrony
                 point is where we stand)
    settled      the view begins; each connection is used again once its remote group has given a definite
                 answer, which shows whether it knows more of the old primary than this replica

Recovery never hangs and never guesses: a remote group that knows more than the virtual synchrony
point finds its connection reset.
"""

from __future__ import annotations

from typing import Final

from llft.identifiers import BirthId, ConnectionId, GroupId, ViewId
from llft.instant import NEVER
from llft.wire.messages import UNSETTLED, Header, NewPrimaryViewAckBody, OrderRange

COLLECTING: Final = "collecting"
PERFORMING: Final = "performing"


class Recovery:
    """The books of one recovery; the replica acts on them."""

    def __init__(self, *, order_ends: dict[BirthId, int], started_ns: int) -> None:
        self.phase = COLLECTING
        self.started_ns = started_ns
        self.asked_number = 0
        """Of the connection that was asked about last."""
        self.awaited: dict[ConnectionId, GroupId] = {}
        """Connections with groups that have not told yet what order information they hold."""
        self.unanswered: list[ConnectionId] = []
        """Connections on which the remote group has not given a definite answer yet."""
        self.done_with: set[GroupId] = set()
        """Groups that have told what they hold, or are not waited for any more."""
        self.order_ends = dict(order_ends)
        """How much order information each member has; the new primary carries what one of them lacks."""
        self.awaits_members = True
        """While it collects. Pieces show where a later view began; what members have beyond that is void."""
        self.answers: dict[ConnectionId, tuple[Header, NewPrimaryViewAckBody]] = {}
        self.indefinite: set[ConnectionId] = set()
        """Connections on which it has answered, at some time, while it recovered itself."""
        self.gone: list[ConnectionId] = []
        self.pieces: list[OrderRange] = []
        self.cut_at: set[int] = set()
        """Starts of later views: our order stream has nothing of older ones beyond them."""
        self.untaken = False
        """There are pieces that the order stream has not been offered yet."""
        self.patience = 200
        """How often the bound on performing is put off for an application that computes or advances."""
        self.performed_count = 0
        """Of the operations: what it was when the bound was set."""
        self.ask_ns = started_ns
        self.bound_ns = NEVER

    def on_discovered(self, connection_id: ConnectionId, group_id: GroupId) -> None:
        """There is such a connection: when recovery begins, or because the log that is followed says so."""
        self.unanswered.append(connection_id)
        if group_id not in self.done_with:
            self.awaited[connection_id] = group_id

    def on_answer(self, connection_id: ConnectionId, header: Header, body: NewPrimaryViewAckBody) -> None:
        """Line 31: order information held at a remote group. One connection answers for all
        connections with that group, because what is held is held per group."""
        self.done_with.add(header.source_group_id)
        for other in [c for c, g in self.awaited.items() if g == header.source_group_id]:
            del self.awaited[other]
        if body.definite:
            if connection_id in self.unanswered:
                self.unanswered.remove(connection_id)
            self.answers[connection_id] = (header, body)
        else:
            self.indefinite.add(connection_id)
        news = [piece for piece in body.held if piece not in self.pieces]
        self.pieces += news
        self.untaken |= bool(news)

    def begin_performing(self, performed_count: int) -> None:
        """What the members know is here; the pieces are to be taken."""
        self.phase, self.awaits_members, self.untaken = PERFORMING, False, True
        self.performed_count = performed_count

    def is_over(self, performed_count: int, *, caught_up: bool) -> bool:
        """The bound on performing has passed. Whoever gets what it misses, one message after the other, does
        not wait in vain, though it takes longer than the bound."""
        return self.patience == 0 or (caught_up and performed_count == self.performed_count)

    def put_off(self, bound_ns: int, performed_count: int) -> None:
        self.patience -= 1
        self.bound_ns, self.performed_count = bound_ns, performed_count

    def stop_waiting(self) -> None:
        """D-07: who has not answered by now is lost."""
        self.done_with.update(self.awaited.values())
        self.awaited.clear()
        self.awaits_members = False

    def on_gone(self, connection_id: ConnectionId) -> None:
        """The remote group has no such connection: it holds nothing that came on it."""
        self.awaited.pop(connection_id, None)
        if connection_id not in self.gone:
            self.gone.append(connection_id)
        if connection_id in self.unanswered:
            self.unanswered.remove(connection_id)

    def member_gone(self, birth_id: BirthId) -> None:
        self.order_ends.pop(birth_id, None)

    def wanted_of_members(self, order_end: int) -> int:
        """How far the best informed member is, if that is further than this replica."""
        if not self.awaits_members or not self.order_ends:
            return 0
        best = max(self.order_ends.values())
        return best if best > order_end else 0

    def all_have(self, order_end: int) -> int:
        """How far every other member is; who is alone has all that there is."""
        return min(self.order_ends.values()) if self.order_ends else order_end

    def collected(self, order_end: int) -> bool:
        return not self.awaited and not self.wanted_of_members(order_end)

    def new_start(self, lineage: list[ViewId], settled_view: ViewId) -> int:
        """Where the first of the views begins that are later than this one and were not told of before."""
        later = lineage[lineage.index(settled_view) + 1 :] if settled_view in lineage else lineage
        known, self.cut_at = self.cut_at, {piece.view_start for piece in self.pieces if piece.view in later}
        return min(self.cut_at - known, default=UNSETTLED)

    def usable_pieces(
        self, lineage: list[ViewId], settled_view: ViewId, settled_start: int
    ) -> list[tuple[int, bytes]]:
        """What of the pieces continues our own history: each view's bytes are void from the start
        of a later view of the same lineage on. Of one such view this replica knows the start itself: a
        remote group on the other side of a partition may not have heard of it."""
        usable = []
        for piece in self.pieces:
            if piece.view not in lineage:
                continue
            later = lineage[lineage.index(piece.view) + 1 :]
            starts = [other.view_start for other in self.pieces if other.view in later]
            limit = min([*starts, settled_start] if settled_view in later else starts, default=UNSETTLED)
            data = piece.data[: max(limit - piece.start, 0)] if limit != UNSETTLED else piece.data
            if data:
                usable.append((piece.start, data))
        return sorted(usable, key=lambda piece: piece[0])
