"""Payloads of one piece of a file -> runs of what the watch looks at: a kind, who, which number, and 64 bits
for the content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from llft.identifiers import BirthId, ViewId
from llft.journal.record import Gap, MembershipChanged, RoleChanged, ViewInstalled
from llft.pipeline.decode import content_of, parse, process_number
from llft.pipeline.watch.runs import Deeds, Run, Source, packed
from llft.pipeline.watch.usual import BEGINNING, SPELLINGS
from llft.pipeline.watch.watcher import GAP, KINDS, MEMBER, OPERATED, PRIMARY, VIEW, view_key

RARE = ("RoleChanged", "ViewInstalled", "MembershipChanged", "Gap")
WANTED = tuple(f'["{name}"'.encode() for name in (*KINDS, *RARE))
BATCH_RECORDS = 1 << 15
"""How many are gathered before they are handed on."""
NO_RECORD = (ValueError, RecursionError)


def runs_of(payloads: Iterable[bytes]) -> Iterator[list[Run]]:
    """None of them empty."""
    slimmer = Slimmer()
    wanted = iter(payloads)
    while some := list(islice(wanted, BATCH_RECORDS)):
        if runs := slimmer.runs_of(some):
            yield runs


class Slimmer:
    """Along one piece of a file."""

    def __init__(self) -> None:
        self.performed = 0
        self.sources: dict[bytes, Source] = {}
        """By how it is spelled."""
        self.gathered: dict[tuple[int, Source], Deeds] = {}

    def runs_of(self, payloads: Sequence[bytes]) -> list[Run]:
        """None of what does not parse or is not of interest: the audit tells about the first."""
        self.gathered = {}
        for payload in payloads:
            try:
                self._add(payload)
            except NO_RECORD:
                continue
        return [packed(code, source, deeds) for (code, source), deeds in self.gathered.items()]

    def _add(self, payload: bytes) -> None:
        spelling = SPELLINGS.get(payload[:BEGINNING])
        usual = spelling.pattern.fullmatch(payload) if spelling is not None else None
        if spelling is not None and usual is not None:
            who, number, content = spelling.deed(*usual.groups())
            source = self.sources.get(who) or self._source(who)
            self._deed(spelling.code, source, number, content)
        elif payload.startswith(WANTED):
            self._unusual(parse(payload))

    def _source(self, who: bytes) -> Source:
        """Looked at as closely as a whole record."""
        _, group_id, birth_id, view = parse(b'["Gap",[0,%b],0]' % who).stamp
        source = self.sources[who] = source_of(group_id, birth_id, view)
        return source

    def _deed(self, code: int, source: Source, number: int, content: int) -> None:
        if code == OPERATED:
            self.performed = number
        deeds = self.gathered.get((code, source))
        if deeds is None:
            deeds = self.gathered[code, source] = Deeds([], [])
        deeds.numbers.append(number)
        deeds.contents.append(content)

    def _unusual(self, record: Any) -> None:
        _, group_id, birth_id, view = record.stamp
        source = source_of(group_id, birth_id, view)
        kind = type(record)
        if kind is MembershipChanged:
            for member in record.membership:
                self._deed(MEMBER, source_of(group_id, member.birth_id, view), record.change_num, 0)
        elif kind is ViewInstalled:
            self._deed(VIEW, source, record.order_seq_num, 0)
        elif kind is Gap:
            self._deed(GAP, source, self.performed, record.lost_count)
        elif kind is RoleChanged:
            if record.role == "primary":
                self._deed(PRIMARY, source, view.primary_view_num, source.primary)
        else:
            content = content_of(record)
            assert content is not None
            if record.order_seq_num < 0:
                raise ValueError("not an order number")
            self._deed(KINDS[kind.__name__], source, record.order_seq_num, content)


def source_of(group_id: int, birth_id: BirthId, view: ViewId) -> Source:
    """ValueError: nobody is called so."""
    replica = process_number(0, group_id, birth_id)
    primary = int(view.birth_id == birth_id)
    return Source(group_id, replica, view_key(view.precedence, view.primary_view_num), primary, str(birth_id))
