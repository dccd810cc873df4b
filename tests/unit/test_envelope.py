"""Envelopes: what was sealed under a known key is opened once, and nothing else is ever opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.errors import MisuseError
from llft.identifiers import BirthId
from llft.runtime.transport.envelope import (
    ENVELOPE_BYTES,
    HEADER_BYTES,
    MAC_BYTES,
    Channel,
    Opener,
    Sealer,
    Version,
)
from llft.runtime.transport.keys import KeyRing, load_keys
from llft.runtime.transport.replay import WIDTH, ReplayWindow
from llft.runtime.transport.senders import MOST_SENDERS

ANN, BOB = BirthId(1, 10, 100), BirthId(2, 20, 200)
PUBLIC = KeyRing()
KEYS = KeyRing({1: b"a" * 32, 3: b"c" * 32})
versions = st.sampled_from(Version)
both_versions = pytest.mark.parametrize("version", Version)


def sealer(keys: KeyRing = KEYS, birth_id: BirthId = ANN, version: Version = Version.BLAKE2B) -> Sealer:
    return Sealer(keys, 7, birth_id, 4000, version)


def opener(keys: KeyRing = KEYS) -> Opener:
    return Opener(keys, BOB)


@given(st.binary(max_size=3000), st.sampled_from(Channel), st.sampled_from([PUBLIC, KEYS]), versions)
def test_what_was_sealed_is_opened(data: bytes, channel: Channel, keys: KeyRing, version: Version) -> None:
    datagram = sealer(keys, version=version).seal(data, channel)
    found = opener(keys).open(datagram)
    assert len(datagram) == len(data) + ENVELOPE_BYTES
    assert found is not None
    sender, opened = found
    assert opened == data
    assert (sender.group_id, sender.birth_id, sender.service_port) == (7, ANN, 4000)


@given(st.binary(max_size=200), st.sampled_from([PUBLIC, KEYS]))
def test_any_bytes_are_dropped_and_counted(data: bytes, keys: KeyRing) -> None:
    receiver = opener(keys)
    assert receiver.open(data) is None
    assert sum(receiver.dropped.values()) == 1
    assert len(receiver.senders) == 0


@given(st.data(), st.binary(max_size=64), st.sampled_from([PUBLIC, KEYS]), versions)
def test_one_changed_bit_anywhere_is_noticed(
    choice: st.DataObject, data: bytes, keys: KeyRing, version: Version
) -> None:
    datagram = bytearray(sealer(keys, version=version).seal(data, Channel.TO_GROUP))
    bit = choice.draw(st.integers(0, 8 * len(datagram) - 1))
    datagram[bit // 8] ^= 1 << bit % 8
    receiver = opener(keys)
    assert receiver.open(bytes(datagram)) is None
    assert receiver.dropped["malformed"] + receiver.dropped["wrong_key"] == 1


@both_versions
def test_each_bit_of_one_datagram_is_noticed(version: Version) -> None:
    datagram = sealer(version=version).seal(b"seventeen of data", Channel.TO_GROUP)
    receiver = opener()
    for bit in range(8 * len(datagram)):
        changed = bytearray(datagram)
        changed[bit // 8] ^= 1 << bit % 8
        assert receiver.open(bytes(changed)) is None
        assert receiver.dropped["malformed"] + receiver.dropped["wrong_key"] == bit + 1
    assert receiver.open(datagram) is not None


@both_versions
def test_a_mac_is_none_of_the_other_kind(version: Version) -> None:
    datagram = sealer(version=version).seal(b"x", Channel.TO_GROUP)
    (other,) = set(Version) - {version}
    receiver = opener()
    assert receiver.open(bytes((other,)) + datagram[1:]) is None
    assert receiver.dropped["wrong_key"] == 1


def test_one_process_may_seal_by_either() -> None:
    receiver = opener()
    first, second = (
        sealer(birth_id=BirthId(1, pid, 1), version=version) for pid, version in enumerate(Version)
    )
    for number in range(5):
        for one in (first, second):
            found = receiver.open(one.seal(bytes((number,)), Channel.TO_GROUP))
            assert found is not None
            assert found[1] == bytes((number,))
    assert sum(receiver.dropped.values()) == 0


def test_what_everybody_has_the_key_of_is_no_gmac() -> None:
    datagram = sealer(version=Version.GMAC).seal(b"x", Channel.TO_GROUP)
    receiver = opener(PUBLIC)
    assert receiver.open(bytes((Version.GMAC, 0)) + datagram[2:]) is None
    assert receiver.open(bytes((Version.GMAC, 0)) + datagram[2:-MAC_BYTES] + bytes(MAC_BYTES)) is None
    assert receiver.dropped["wrong_key"] == 2


@given(st.binary(max_size=64), st.integers(1, 60), versions)
def test_a_cut_datagram_is_dropped(data: bytes, cut: int, version: Version) -> None:
    datagram = sealer(version=version).seal(data, Channel.TO_GROUP)
    assert opener().open(datagram[:-cut]) is None


def test_each_datagram_is_opened_once() -> None:
    sender, receiver = sealer(), opener()
    datagrams = [sender.seal(b"x", Channel.TO_GROUP) for _ in range(10)]
    assert [receiver.open(datagram) is not None for datagram in reversed(datagrams)] == [True] * 10
    assert [receiver.open(datagram) for datagram in datagrams] == [None] * 10
    assert receiver.dropped["replayed"] == 10


def test_a_channel_that_is_far_ahead_does_not_spoil_the_other() -> None:
    sender, receiver = sealer(), opener()
    early = sender.seal(b"early", Channel.TO_PROCESS)
    for _ in range(WIDTH + 10):
        assert receiver.open(sender.seal(b"", Channel.TO_GROUP)) is not None
    assert receiver.open(early) is not None


def test_own_datagrams_are_dropped() -> None:
    receiver = opener()
    assert receiver.open(sealer(KEYS, BOB).seal(b"echo", Channel.TO_GROUP)) is None
    assert receiver.dropped["own"] == 1


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        (KeyRing({1: b"z" * 32}), KEYS),
        (KeyRing({9: b"a" * 32}), KEYS),
        (PUBLIC, KEYS),
        (KEYS, PUBLIC),
    ],
)
@both_versions
def test_wrong_keys_are_counted(theirs: KeyRing, mine: KeyRing, version: Version) -> None:
    receiver = opener(mine)
    assert receiver.open(sealer(theirs, version=version).seal(b"x", Channel.TO_GROUP)) is None
    assert receiver.dropped["wrong_key"] == 1


@both_versions
def test_rotation_the_highest_sends_and_all_are_accepted(version: Version) -> None:
    old, both = KeyRing({1: b"a" * 32}), KEYS
    assert opener(both).open(sealer(old, version=version).seal(b"x", Channel.TO_GROUP)) is not None
    sealed = sealer(both, version=version).seal(b"x", Channel.TO_GROUP)
    assert sealed[1] == 3
    assert opener(KeyRing({3: b"c" * 32})).open(sealed) is not None


def test_a_flood_of_garbage_takes_no_memory_and_stops_nobody() -> None:
    sender, receiver = sealer(), opener()
    template = sender.seal(b"x" * 100, Channel.TO_GROUP)
    for number in range(5000):
        forged = template[:2] + number.to_bytes(HEADER_BYTES - 2, "big") + template[HEADER_BYTES:]
        assert receiver.open(forged) is None
    assert len(receiver.senders) == 0
    assert receiver.open(template) is not None


def test_the_number_of_senders_is_bounded_and_the_silent_go_first() -> None:
    receiver = opener()
    for pid in range(MOST_SENDERS + 5):
        found = receiver.open(sealer(KEYS, BirthId(1, pid, 1)).seal(b"x", Channel.TO_GROUP))
        assert found is not None
        found[0].heard_ns = pid + 1
    assert len(receiver.senders) == MOST_SENDERS
    assert receiver.senders.evicted == 5
    assert receiver.senders.of_birth(BirthId(1, 0, 1)) is None
    assert receiver.senders.of_birth(BirthId(1, MOST_SENDERS + 4, 1)) is not None


@given(st.lists(st.integers(0, 3 * WIDTH), max_size=200))
def test_the_window_accepts_a_number_once_and_nothing_below(numbers: list[int]) -> None:
    window = ReplayWindow()
    seen: set[int] = set()
    for number in numbers:
        newest = max(seen, default=0)
        fresh = number > 0 and number not in seen and number > newest - WIDTH
        assert window.accept(number) is fresh
        if fresh:
            seen.add(number)


@given(st.lists(st.tuples(st.integers(1, WIDTH), st.integers(1, 2 * WIDTH + 3)), max_size=4))
def test_a_run_of_numbers_is_accepted_as_each_of_them_is(runs: list[tuple[int, int]]) -> None:
    """`runs`: how far behind the one before each begins, and how many numbers it has."""
    window, one_by_one, newest = ReplayWindow(), ReplayWindow(), 0
    for gap, count in runs:
        window.accept_run(newest + gap, count)
        for number in range(newest + gap, newest + gap + count):
            assert one_by_one.accept(number)
        newest += gap + count - 1
    assert window.newest == one_by_one.newest == newest
    around = range(max(1, newest - WIDTH - 2), newest + 3)
    assert [window.accept(number) for number in around] == [one_by_one.accept(number) for number in around]


def test_a_whole_window_late_is_too_late() -> None:
    window = ReplayWindow()
    assert window.accept(WIDTH + 1)
    assert not window.accept(1)
    assert window.accept(2)


def write(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_key_file_is_read(tmp_path: Path) -> None:
    keys = load_keys(write(tmp_path / "keys", f"# two\n1:{'aa' * 16}\n\n 200:{'bb' * 32} # new\n"))
    assert keys.sending_number == 200
    assert keys.key(1) == b"\xaa" * 16
    assert not keys.is_public


@pytest.mark.parametrize(
    ("text", "condition", "where"),
    [
        ("", "key_file_empty", ""),
        ("1:zz\n", "key_malformed", ":1"),
        (f"1:{'aa' * 16}\n2;{'aa' * 16}\n", "key_malformed", ":2"),
        (f"0:{'aa' * 16}", "key_number_out_of_range", ":1"),
        (f"256:{'aa' * 16}", "key_number_out_of_range", ":1"),
        ("1:aabb", "key_length", ":1"),
        (f"1:{'aa' * 65}", "key_length", ":1"),
        (f"1:{'aa' * 16}\n1:{'ab' * 16}", "key_number_twice", ":2"),
    ],
)
def test_a_bad_key_file_is_told_with_its_line(tmp_path: Path, text: str, condition: str, where: str) -> None:
    path = write(tmp_path / "keys", text)
    with pytest.raises(MisuseError) as caught:
        load_keys(path)
    assert caught.value.condition == condition
    assert where in caught.value.remedy


def test_a_key_file_for_all_eyes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="open_to_all"):
        load_keys(write(tmp_path / "keys", f"1:{'aa' * 16}", 0o644))


def test_a_missing_key_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="key_file_unreadable"):
        load_keys(str(tmp_path / "none"))
