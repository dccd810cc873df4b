"""A history on disk: what was flushed is there, and what was torn is not."""

from __future__ import annotations

import errno
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llft import originals
from llft.core.determinizer.operations import Yield
from llft.errors import PeerError
from llft.identifiers import BirthId, ViewId
from llft.past.birth_log import OPERATION_KINDS, BirthLog
from llft.past.checkpoint import Base
from llft.past.history import VERSION, Heading, view_number
from llft.runtime.state.history import FILE, History, longest, read_history

KIND = OPERATION_KINDS[Yield]
FINGERPRINT = {"options": {"program": "server.py"}}


def heading(base: Base | None = None) -> Heading:
    if base is None:
        return Heading(VERSION, FINGERPRINT, None, 0, 0, 0, [])
    return Heading(VERSION, FINGERPRINT, list(base), base.position, base.digest, base.head_bytes, [[1, 9, 7]])


def begun(directory: Path, log: BirthLog) -> History:
    history = History(str(directory), sync=False)
    history.begin(heading(), None, "", log, 1)
    return history


def grow(log: BirthLog, count: int) -> None:
    for number in range(count):
        log.completed(1, KIND, number)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6))
@settings(max_examples=20, deadline=None)
def test_what_was_flushed_is_there(tmp_path_factory: pytest.TempPathFactory, steps: list[int]) -> None:
    directory = tmp_path_factory.mktemp("h") / "durable" / "replica-1"
    log = BirthLog()
    history = begun(directory, log)
    for count in steps:
        grow(log, count)
        history.flush(log, 1)
    past = read_history(directory)
    assert (past.log, past.end) == (log.kept(), log.length)
    assert past.heading.fingerprint == FINGERPRINT
    grow(log, 3)
    assert read_history(directory).end < log.length
    history.close()


def test_a_torn_or_altered_end_is_not_of_the_history(tmp_path: Path) -> None:
    log = BirthLog()
    history = begun(tmp_path / "d" / "replica-1", log)
    ends = []
    for _ in range(5):
        grow(log, 10)
        history.flush(log, 1)
        ends.append(log.length)
    file = tmp_path / "d" / "replica-1" / FILE
    whole = file.read_bytes()
    for cut in range(1, 60):
        file.write_bytes(whole[:-cut])
        assert read_history(file.parent).end in ends
        assert read_history(file.parent).end < log.length
    altered = bytearray(whole)
    altered[-1] ^= 1
    file.write_bytes(altered)
    assert read_history(file.parent).end == ends[-2]


def test_a_newer_state_takes_the_place_of_the_log_before_it(tmp_path: Path) -> None:
    log, directory = BirthLog(), tmp_path / "d" / "replica-1"
    grow(log, 10)
    head = log.length
    head_digest = log.digest
    history = begun(directory, log)
    grow(log, 100)
    for number in range(2):
        state = tmp_path / f"state{number}"
        state.write_bytes(b"state %d" % number)
        content = blake2b(state.read_bytes(), digest_size=16).hexdigest()
        base = Base("hooks", log.length, log.digest, 7, content, head, head_digest)
        grow(log, 20)
        if number:
            log.drop_before(base.position, base.digest, head_bytes=head)
        history.begin(heading(base), base, str(state), log, 1)
        state.unlink()
        grow(log, 5)
        history.flush(log, 1)
        past = read_history(directory)
        assert (past.base, past.end, len(past.head)) == (base, log.length, head)
        assert past.log == log.piece(base.position, log.length)
        assert sorted(path.name for path in directory.iterdir()) == [FILE, f"state-{base.position}"]
    Path(past.state_path).write_bytes(b"another")
    with pytest.raises(PeerError, match="state_digest_differs"):
        read_history(directory)


def test_a_later_view_counts_more_than_a_longer_log_and_a_restart_more_than_that(tmp_path: Path) -> None:
    """The primary that died alone may have been ahead; the group went on without what only it knew."""
    for number, (generation, view, size) in enumerate([(0, 1, 50), (0, 2, 20), (1, 1, 10)], start=1):
        log, history = BirthLog(), History(str(tmp_path / f"replica-{number}"), sync=False)
        grow(log, size)
        history.begin(heading()._replace(generation=generation), None, "", log, view)
        history.close()
        past, _ = longest(tmp_path)
        assert past is not None
        assert past.directory.endswith(f"replica-{number}")


def test_the_view_is_the_one_in_which_the_replica_performed() -> None:
    """A backup that adopted the next view has not come to its beginning: the dead primary may be ahead."""

    class Core:
        performed_view = ViewId(1, 1, BirthId(1, 2, 3))
        view = ViewId(2, 2, BirthId(4, 5, 6))

    assert view_number(Core()) == 1


def test_the_longest_history_is_found_and_what_is_none_is_told(tmp_path: Path) -> None:
    for number, size in ((1, 10), (2, 30), (3, 20)):
        log = BirthLog()
        grow(log, size)
        begun(tmp_path / f"replica-{number}", log).close()
    (tmp_path / "replica-4").mkdir()
    (tmp_path / "replica-4" / FILE).write_bytes(b"nonsense\n")
    (tmp_path / "replica-5").mkdir()
    past, complaints = longest(tmp_path)
    assert past is not None
    assert past.directory == str(tmp_path / "replica-2")
    assert [text.split(":")[0] for text in complaints] == ["replica-4", "replica-5"]
    assert longest(tmp_path / "nowhere") == (None, [])


@pytest.mark.parametrize("refused", ["write", "rename"])
def test_a_newer_one_that_the_disk_refuses_leaves_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """What is flushed after that is in the file that a restart reads."""
    log = BirthLog()
    directory = tmp_path / "d" / "replica-1"
    history = begun(directory, log)
    grow(log, 5)
    history.flush(log, 1)

    def refuse(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as full:
        full.setattr(originals, refused, refuse)
        with pytest.raises(OSError, match="no space"):
            history.begin(heading(), None, "", log, 1)
    grow(log, 5)
    history.flush(log, 1)
    assert read_history(directory).end == log.length
    history.close()
