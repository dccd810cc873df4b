"""Payloads of one piece of a file -> runs of what the watch looks at: a kind, who, which number, and 64 bits
for the content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from llft.identifiers import BirthId, ViewId
from llft.journal.packed import START
from llft.journal.record import (
    ClockRead,
    Gap,
    MembershipChanged,
    Operated,
    Record,
    RoleChanged,
    Sent,
    ViewInstalled,
)
from llft.journal.unpack_rows import unpack
from llft.pipeline.decode import content_of, parse, process_number
from llft.pipeline.watch.runs import Deeds, Run, Source, packed
from llft.pipeline.watch.usual import BEGINNING, SPELLINGS
from llft.pipeline.watch.watcher import GAP, KINDS, MEMBER, OPERATED, PRIMARY, VIEW, view_key

RARE = ("RoleChanged", "ViewInstalled", "MembershipChanged", "Gap")
WANTED = tuple(f'["{name}"'.encode() for name in (*KINDS, *RARE))
BATCH_RECORDS = 1 << 15
"""How many are gathered before they are handed on."""
NO_RECORD = (ValueError, RecursionError)
CODES: dict[type, int] = {kind: KINDS[kind.__name__] for kind in (Operated, Sent, ClockRead)}


def runs_of(payloads: Iterable[bytes]) -> Iterator[list[Run]]:
    """None of them empty."""
    slimmer = Slimmer()
    for payload in payloads:
        slimmer.add(payload)
        if slimmer.record_count >= BATCH_RECORDS and (runs := slimmer.take()):
            yield runs
    if runs := slimmer.take():
        yield runs


class Slimmer:
    """Along one piece of a file."""

    def __init__(self) -> None:
        self.performed = 0
        self.sources: dict[bytes, Source] = {}
        """By how it is spelled."""
        self.gathered: dict[tuple[int, Source], Deeds] = {}
        self.record_count = 0
        """Looked at since the last were taken."""

    def take(self) -> list[Run]:
        gathered, self.gathered, self.record_count = self.gathered, {}, 0
        return [packed(code, source, deeds) for (code, source), deeds in gathered.items()]

    def add(self, payload: bytes) -> None:
        """Nothing of what does not parse or is not of interest: the audit tells about the first."""
        try:
            if payload.startswith(START):
                self._add_packed(unpack(payload))
            else:
                self.record_count += 1
                self._add_one(payload)
        except NO_RECORD:
            return

    def _add_packed(self, records: list[Record]) -> None:
        """They are all of one process in one view: what cannot be of one cannot be of all."""
        self.record_count += len(records)
        if not records:
            return
        _, group_id, birth_id, view = records[0].stamp
        source = source_of(group_id, birth_id, view)
        for record in records:
            code = CODES.get(type(record))
            if code is None:
                continue
            content, number = content_of(record), record.order_seq_num  # type: ignore[union-attr]
            if number >= 0 and content is not None:
                self._deed(code, source, number, content)

    def _add_one(self, payload: bytes) -> None:
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
