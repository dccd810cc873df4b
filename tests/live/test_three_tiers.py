"""Replicated clients, and a replicated tier between outside clients and an unreplicated Redis."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llft.cli.free_port import free_port
from tests.live.application_world import (
    Clients,
    HttpSpeaker,
    ReplicatedRun,
    Reply,
    assert_journals_hold,
    plain,
    replicated,
    running,
    until,
)

THREADS = 4
REQUESTS = 900
"""Of each thread of the replicated client: so many that the last kill meets it at work."""
KILLS = 3


# -- a replicated client --------------------------------------------------------------------------------


def report_of(client: ReplicatedRun) -> Reply:
    """What the client program has seen so far."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request("GET", "/")
    report: Reply = json.loads(connection.getresponse().read())
    connection.close()
    return report


def kill_in_turn(client: ReplicatedRun, *others: ReplicatedRun) -> None:
    """Each kill meets a client that has yet much to ask."""
    runs = [client, *others]
    for number in range(KILLS):
        before = len(report_of(client)["seen"])
        assert before < THREADS * REQUESTS, "the client ended before the last kill"
        runs[number % len(runs)].kill_primary()
        until("go on", lambda before=before: len(report_of(client)["seen"]) > before)
    until("finish", lambda: report_of(client)["finished"] == THREADS)


def assert_each_once(report: Reply, dump: Reply) -> None:
    """What the server did is what the client asked for, once each, in the order that the client saw."""
    assert report["complaints"] == []
    seen = sorted(report["seen"])
    assert [entry[0] for entry in seen] == list(range(1, THREADS * REQUESTS + 1))
    assert [entry[1:] for entry in seen] == dump["history"]
    for thread in range(THREADS):
        numbers = [entry[2] for entry in seen if entry[1] == f"worker{thread}"]
        assert numbers == list(range(1, REQUESTS + 1))


def client_words(port: int) -> list[str]:
    return ["requests_client.py", f"http://127.0.0.1:{port}/", str(THREADS), str(REQUESTS)]


def dump_of(port: int) -> Reply:
    speaker = HttpSpeaker(port)
    dump = speaker.dump()
    speaker.close()
    return dump


def test_a_replicated_client_of_a_replicated_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("h")
    with replicated(home, "server", ["http_plain.py"]) as server:
        config = home / "llft.toml"
        config.write_text(f'[groups.{server.group}]\nendpoints = ["127.0.0.1:{server.port}"]\n')
        with replicated(home, "client", client_words(server.port), config=config) as client:
            kill_in_turn(client, server)
            report = report_of(client)
        dump = dump_of(server.port)
    assert_each_once(report, dump)
    assert_journals_hold(server, client)


def test_a_replicated_client_of_a_server_outside(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        plain(["http_plain.py"]) as port,
        replicated(tmp_path_factory.mktemp("h"), "client", client_words(port)) as client,
    ):
        kill_in_turn(client)
        report = report_of(client)
        dump = dump_of(port)
    assert_each_once(report, dump)
    assert_journals_hold(client)


# -- three tiers ----------------------------------------------------------------------------------------


@contextmanager
def redis_server(directory: Path) -> Iterator[int]:
    """Debian's, on a free port, with nothing kept on disk."""
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip(
            "redis-server is not installed: make setup installs it, as root: apt-get install redis-server"
        )
    port = free_port()
    command = [found, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    with running(command, port):
        yield port


def test_each_increment_reaches_redis_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("h")
    with redis_server(home) as redis_port:
        with replicated(home, "front", ["redis_front.py", str(redis_port)]) as front:
            clients = Clients(THREADS, lambda: HttpSpeaker(front.port))
            for _ in range(KILLS):
                clients.await_progress(40)
                front.kill_primary()
            clients.await_progress(40)
            entries = clients.stop()
            dump = dump_of(front.port)
        assert dump["sequence"] == len(entries)
        asked: dict[str, int] = {}
        for entry in entries:
            who, _, amount = entry.request
            asked[who] = asked.get(who, 0) + amount
        assert dump["balances"] == asked
    assert_journals_hold(front)
