"""Where a group is, in a network without multicast (D-14): one copy to every member.

Members of a configured group are listed. Whoever else was heard (a gateway, a member on an unlisted port)
is sent to at the address its authentic datagrams came from, until it has been silent for a minute. Somebody
who is both listed and heard at another address gets two copies with one sequence number, of which the
replay window drops one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from llft.identifiers import GroupId
from llft.instant import MS
from llft.runtime.transport.interface import Address
from llft.runtime.transport.senders import Senders

_REFRESH_NS: Final = 100 * MS
_MOST_GROUPS: Final = 1024


class UnicastAddressing:
    def __init__(self, members: Mapping[GroupId, Sequence[Address]]) -> None:
        self._listed = {group_id: tuple(addresses) for group_id, addresses in members.items()}
        self._own: Address = ("", 0)
        self._known: dict[GroupId, tuple[int, int, tuple[Address, ...]]] = {}

    def prepare(self, own: Address) -> None:
        self._own = own

    def destinations(self, group_id: GroupId, senders: Senders, now_ns: int) -> Sequence[Address]:
        """Collected anew when somebody new was heard, and every now and then for those who fell silent."""
        known = self._known.get(group_id)
        if known is not None and now_ns < known[0] and len(senders) == known[1]:
            return known[2]
        learned = (sender.address for sender in senders.of_group(group_id, now_ns))
        found = dict.fromkeys((*self._listed.get(group_id, ()), *learned))
        found.pop(self._own, None)
        if len(self._known) >= _MOST_GROUPS:
            self._known.clear()
        self._known[group_id] = (now_ns + _REFRESH_NS, len(senders), tuple(found))
        return self._known[group_id][2]
