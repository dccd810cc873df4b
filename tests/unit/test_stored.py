"""What a semi-passive backup holds: it goes on with updates, and with nothing else."""

from __future__ import annotations

from zlib import crc32

from llft.identifiers import BirthId
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base, Checkpoint
from llft.runtime.state.stored import Stored

BIRTH = BirthId(1, 2, 3)


def checkpoint(whole: bytes, *, since: int, carries: bool = True) -> Checkpoint:
    """Of a log from birth, with what was added since a position."""
    log = whole[since:] if carries else None
    return Checkpoint(BIRTH, len(whole), crc32(whole), [], [], {}, None, since, crc32(whole[:since]), log)


def test_an_update_goes_on_where_the_log_ends() -> None:
    stored = Stored(BirthLog(b"one two"))
    assert stored.follow(checkpoint(b"one two three", since=7))
    assert stored.log.kept() == b"one two three"
    assert stored.has(checkpoint(b"one two three", since=0))


def test_an_update_after_one_that_was_missed_is_not_held() -> None:
    stored = Stored(BirthLog(b"one"))
    assert not stored.follow(checkpoint(b"one two three", since=7))
    assert stored.log.kept() == b"one"


def test_an_update_that_is_only_named_is_held_if_its_log_is_here() -> None:
    stored = Stored(BirthLog(b"one two"))
    assert stored.follow(checkpoint(b"one", since=0, carries=False))
    assert not stored.follow(checkpoint(b"one two three", since=0, carries=False))


def test_what_nobody_continued_is_replaced() -> None:
    """An update came of a primary whose last entries nobody has: the next primary went on before them."""
    stored = Stored(BirthLog(b"one two"))
    assert stored.follow(checkpoint(b"one other three", since=3))
    assert stored.log.kept() == b"one other three"


def test_another_past_is_not_held() -> None:
    stored = Stored(BirthLog(b"one two"))
    assert not stored.follow(checkpoint(b"two two three", since=7))
    assert stored.log.kept() == b"one two"


def test_it_begins_with_a_state_that_its_log_leads_through() -> None:
    stored = Stored(BirthLog(b"head past"))
    base = Base("hooks", 5, crc32(b"head "), 3, "", head_bytes=4, head_digest=crc32(b"head"))
    assert stored.can_begin_with(base)
    head = stored.head(base)
    assert head == b"head"
    stored.begin_with(base, head, "a file")
    assert (stored.log.start, stored.log.kept(), stored.log.digest) == (5, b"past", crc32(b"head past"))
    assert not stored.can_begin_with(base), "it does already"
    assert stored.head(base) == b"head"


def test_a_state_of_another_past_is_not_begun_with() -> None:
    stored = Stored(BirthLog(b"head past"))
    assert not stored.can_begin_with(Base("hooks", 5, crc32(b"other"), 3, ""))
    assert not stored.can_begin_with(Base("hooks", 50, 1, 3, ""))


def test_the_head_that_is_kept_is_not_the_log() -> None:
    """An update that begins before the state has nothing to go on from here."""
    stored = Stored(BirthLog(b"past", start=5, digest=crc32(b"head "), head=b"head"))
    assert stored.follow(checkpoint(b"head past more", since=9))
    assert stored.follow(checkpoint(b"head past more", since=2)), "it is held already"
    assert not stored.follow(checkpoint(b"head past more and more", since=2))
