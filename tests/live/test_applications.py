"""Unmodified programs of many kinds, as process groups: primaries are killed under load, nobody notices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.live.application_world import (
    HttpSpeaker,
    LineSpeaker,
    ParitySpeaker,
    RpcSpeaker,
    Speaker,
    assert_journals_hold,
    assert_like_unreplicated,
    replicated,
    survive,
)

SERVERS: dict[str, tuple[Sequence[str], Callable[[int], Speaker], int]] = {
    "kv-locked": (["kv_locked.py"], LineSpeaker, 5),
    "kv-racy": (["kv_racy.py"], LineSpeaker, 5),
    "many-clocks": (["many_clocks.py"], LineSpeaker, 5),
    "http": (["http_plain.py"], HttpSpeaker, 5),
    "xmlrpc": (["xmlrpc_plain.py"], RpcSpeaker, 3),
    "flask-waitress": (["flask_waitress.py"], HttpSpeaker, 3),
    "fastapi-h11": (["fastapi_uvicorn.py", "h11"], ParitySpeaker, 3),
    "fastapi-httptools": (["fastapi_uvicorn.py", "httptools"], ParitySpeaker, 3),
    "aiohttp": (["aiohttp_plain.py"], HttpSpeaker, 3),
}
"""By name: the program, how one speaks with it, how often its primary is killed."""


@pytest.mark.parametrize("name", SERVERS)
def test_kills_change_nothing(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    words, speak, kills = SERVERS[name]
    with replicated(tmp_path_factory.mktemp("h"), name, words) as run:
        entries, dump = survive(run, speak, kills)
    assert_unlike([entry.luck[0] for entry in entries if entry.luck and isinstance(entry.luck[0], str)])
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, speak)


def assert_unlike(identifiers: Sequence[str]) -> None:
    """Every uuid is new, across fail-overs, too."""
    assert len(set(identifiers)) == len(identifiers)
