"""Programs whose threads run side by side (`--threads ordered`), as process groups; primaries are killed.

And one that leaves what its threads share to chance, which is no program for this mode: its replicas must
find out, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from llft.journal.record import Diverged
from llft.simulator.from_journals import read_journals
from tests.live import application_world
from tests.live.application_world import (
    BETWEEN_KILLS,
    Clients,
    HttpSpeaker,
    LineSpeaker,
    Speaker,
    assert_journals_hold,
    assert_like_unreplicated,
    replicated,
    survive,
    until,
)

KILLS = 3
RACERS, QUICK_S = 6, 0.002

SERVERS: dict[str, tuple[Sequence[str], Callable[[int], Speaker]]] = {
    "kv-locked": (["kv_locked.py"], LineSpeaker),
    "http": (["http_plain.py"], HttpSpeaker),
}


@pytest.mark.parametrize("name", SERVERS)
def test_kills_change_nothing(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    words, speak = SERVERS[name]
    with replicated(tmp_path_factory.mktemp("h"), name, words, threads="ordered") as run:
        entries, dump = survive(run, speak, KILLS)
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, speak)


def test_a_racy_program_is_found_out(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backups that come to another result leave, and their logs say what to do. Nobody is told two things:
    each client's requests are answered once, in one order, by the primary."""
    monkeypatch.setattr(application_world, "PACE_S", QUICK_S)
    with replicated(tmp_path_factory.mktemp("h"), "racy", ["kv_racy.py"], threads="ordered") as run:
        clients = Clients(RACERS, lambda: LineSpeaker(run.port))

        def told() -> bool:
            assert not clients.complaints, clients.complaints
            logs = run.directory.path.glob("replica-*.log")
            return any("run it with --threads token" in log.read_text(errors="replace") for log in logs)

        until("find out", told)
        clients.await_progress(BETWEEN_KILLS)
        clients.stop()
    journals = read_journals(sorted(run.directory.journal.glob("*.llj")))
    assert any(isinstance(record, Diverged) for journal in journals for record in journal.records)
