"""Numbered deeds as our own writer spells them, by regular expression: a third of the time that JSON takes.

Nothing is taken that JSON would read otherwise: numbers are spelled in the one way there is, texts are
printable ASCII without escapes. What does not match is not wrong, it only takes longer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from llft.pipeline.decode import content_of_clock, content_of_entry, content_of_sent
from llft.pipeline.watch.watcher import CLOCK_READ, OPERATED, SENT

_DIGITS = rb"(?:[1-8]\d{18}|[1-9]\d{0,17})"
"""What fits into 64 bits for sure. Today's time in nanoseconds has nineteen digits."""
_NUMBER = rb"(0|%b)" % _DIGITS
_INTEGER = rb"(0|-?%b)" % _DIGITS
_IGNORED = rb"(?:0|-?%b)" % _DIGITS
_WHO = rb"(\d+,\[[\d,]+\],\[[\d,]+\[[\d,]+\]\])"
"""A stamp without its time. Whether it is one is looked at once for each: few say it in a million records."""
_TEXT = rb'"([ !#-\[\]-~]*)"'


class Spelling(NamedTuple):
    """Of one kind."""

    code: int
    pattern: re.Pattern[bytes]
    deed: Callable[..., tuple[bytes, int, int]]
    """From the groups of the pattern: who, as it is spelled, order number and content."""


def _pattern(kind: bytes, *fields: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'\["%b",\[%b,%b\],%b\]' % (kind, _IGNORED, _WHO, b",".join(fields)))


def _operated(who: bytes, number: bytes, entry: bytes) -> tuple[bytes, int, int]:
    return who, int(number), content_of_entry(entry)


def _sent(who: bytes, client: bytes, server: bytes, conn: bytes, *rest: bytes) -> tuple[bytes, int, int]:
    values = [int(one) for one in rest]
    return who, values[-1], content_of_sent((int(client), int(server), int(conn)), *values)


def _clock_read(who: bytes, clock_id: bytes, value_ns: bytes, number: bytes) -> tuple[bytes, int, int]:
    return who, int(number), content_of_clock(int(clock_id), int(value_ns))


_CONNECTION = rb"\[%b,%b,%b\]" % (_INTEGER, _INTEGER, _INTEGER)

SPELLINGS = {
    b'["Oper': Spelling(OPERATED, _pattern(b"Operated", _NUMBER, _TEXT), _operated),
    b'["Sent': Spelling(SENT, _pattern(b"Sent", _CONNECTION, _IGNORED, *(_INTEGER,) * 4, _NUMBER), _sent),
    b'["Cloc': Spelling(CLOCK_READ, _pattern(b"ClockRead", _INTEGER, _INTEGER, _NUMBER), _clock_read),
}
"""By how a payload begins."""
BEGINNING = 6
"""Bytes of that."""
