"""The birth log when its beginning is dropped: positions and digests are those of the whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.core.determinizer.operations import Failure, Result, Yield
from llft.errors import PeerError
from llft.identifiers import BirthId
from llft.past.birth_log import OPERATION_KINDS, BirthLog
from llft.past.checkpoint import Base, Checkpoint, pack, unpack
from llft.past.log_reading import events, events_of

KIND = OPERATION_KINDS[Yield]
RESULTS = st.one_of(st.none(), st.booleans(), st.integers(-(1 << 40), 1 << 40), st.binary(max_size=40))


def filled(results: list[Result]) -> tuple[BirthLog, list[tuple[int, int]]]:
    """A log, and its position and digest after each event."""
    log, places = BirthLog(), []
    for result in results:
        log.completed(1, KIND, result)
        places.append((log.length, log.digest))
    return log, places


@given(st.lists(RESULTS, min_size=3, max_size=20), st.data())
def test_a_dropped_beginning_changes_neither_length_nor_digest(
    results: list[Result], data: st.DataObject
) -> None:
    whole, places = filled(results)
    log, _ = filled(results)
    position, digest = data.draw(st.sampled_from(places))
    head = data.draw(st.integers(0, position))
    log.drop_before(position, digest, head_bytes=head)
    assert (log.length, log.digest) == (whole.length, whole.digest)
    assert log.piece(position, log.length) == whole.piece(position, whole.length)
    assert log.piece(0, head) == whole.piece(0, head)
    log.completed(1, KIND, b"more")
    whole.completed(1, KIND, b"more")
    assert (log.length, log.digest) == (whole.length, whole.digest)


def test_what_was_dropped_is_not_there() -> None:
    log, places = filled([b"one", b"two", b"three", b"four"])
    (first, _), (second, digest) = places[0], places[1]
    log.drop_before(second, digest, head_bytes=first)
    assert log.has(0, first)
    assert log.has(second, log.length)
    assert not log.has(first, second)
    assert not log.has(0, second)
    assert not log.has(second, log.length + 1)
    assert log.kept_bytes == first + log.length - second


def test_without_a_head_there_is_nothing_before_the_start() -> None:
    log, places = filled([b"one", b"two"])
    log.drop_before(*places[0])
    assert not log.has(0, 0)


def test_a_log_goes_on_from_a_base() -> None:
    whole, places = filled([b"one", b"two", b"three"])
    position, digest = places[0]
    later = BirthLog(start=position, digest=digest)
    later.completed(1, KIND, b"four")
    resumed = later.beginning(whole.piece(position, whole.length))
    resumed.go_on(later.kept())
    whole.completed(1, KIND, b"four")
    assert (resumed.length, resumed.digest, resumed.start) == (whole.length, whole.digest, position)
    assert [event.result for event in events(resumed.kept())] == [b"two", b"three", b"four"]


def test_a_checkpoint_names_its_base_and_carries_what_follows() -> None:
    log, places = filled([b"one", b"two", b"three"])
    position, digest = places[1]
    base = Base("hooks", position, digest, 10, "aa", 3, 4)
    taken = Checkpoint(BirthId(1, 2, 3), log.length, log.digest, [], [], {}, base, position, digest)
    log.drop_before(position, digest)
    found = unpack(pack(taken, log))
    assert found.base == base
    assert found.log == log.kept()
    assert found.is_of(log.kept(), start=position, digest=digest)
    assert not found.is_of(log.kept(), start=position, digest=digest ^ 1)


@pytest.mark.parametrize("base", [7, "x", ["image"], ["image", -1, 0, 0, ""], ["image", 1, 2, 3, 4]])
def test_a_malformed_base_is_refused(base: object) -> None:
    header = json.dumps([[1, 2, 3], 0, 0, [], [], {}, base, 0, 0]).encode()
    with pytest.raises(PeerError, match="checkpoint_malformed"):
        unpack(header + b"\n")


@given(st.lists(RESULTS, max_size=30), st.integers(1, 50))
def test_a_log_is_read_in_pieces_of_any_size(results: list[Result], size: int) -> None:
    log, _ = filled([*results, Failure("EPIPE", definite=True), (1, -300), b"x" * 200])
    log.started(200, "1.2")
    log.called(1, 77)
    assert list(events_of(log, log.length, size)) == list(events(log.kept()))


@given(st.lists(RESULTS, min_size=1, max_size=20), st.data())
def test_a_log_that_ends_amidst_an_event_is_told(results: list[Result], data: st.DataObject) -> None:
    whole, places = filled(results)
    position = data.draw(st.integers(0, whole.length))
    log = BirthLog(whole.piece(0, position))
    if position in (0, *(place for place, _ in places)):
        assert len(list(events_of(log, log.length))) == sum(place <= position for place, _ in places)
        return
    with pytest.raises(PeerError, match="birth_log_truncated"):
        list(events_of(log, log.length))


def test_what_is_added_while_a_log_is_read_is_not_of_it() -> None:
    log, _ = filled([b"one", b"two"])
    found = events_of(log, log.length)
    log.completed(1, KIND, b"three")
    assert [event.result for event in found] == [b"one", b"two"]


@given(st.lists(RESULTS, max_size=10), st.lists(RESULTS, max_size=10), st.integers(0, 1 << 20))
def test_who_names_what_was_unknown_has_the_log_of_who_knew(
    before: list[Result], behind: list[Result], start: int
) -> None:
    """Digest and bytes, wherever the log begins."""
    late, known = BirthLog(start=start, digest=start), BirthLog(start=start, digest=start)
    for log in (late, known):
        for result in before:
            log.completed(1, KIND, result)
    place = late.completed_unseen(1, b"five")
    known.completed(1, KIND, b"five")
    for log in (late, known):
        for result in behind:
            log.completed(1, KIND, result)
    late.name(place, KIND)
    assert (late.kept(), late.digest) == (known.kept(), known.digest)
