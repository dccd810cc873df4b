"""A bad network and a primary that is killed, under load: every reply is right, and the journals agree."""

from __future__ import annotations

import pytest

from tests.live.evidence import assert_at_rest, assert_journals_hold
from tests.live.world import assert_nothing_went_wrong, running, short_directory, write_settings

FAULTS = """
[transport.fault_injection]
loss = 0.1
duplicate = 0.05
reorder = 0.1
"""


def test_nothing_is_lost_on_a_bad_network_when_primaries_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as home:
        with running(monkeypatch, home, write_settings(home, FAULTS)) as trial:
            for _ in range(2):
                trial.kill_primary()
            assert_nothing_went_wrong(trial.stop())
            assert_at_rest(trial.directory.path)
        journals = assert_journals_hold(trial.directory.path)
        views = {journal.last.view for journal in journals if journal.name.startswith("replica")}
        assert max(view.primary_view_num for view in views) >= 3, "two primaries were replaced"
