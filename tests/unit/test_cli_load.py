"""The clients of the demonstration notice what a bad server does: each kind of fault by its own name."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from llft.cli import load_client
from llft.cli.demo_server import Bank
from llft.cli.load_client import AROUND_NS, Client, Verdict


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, socket.socket]]:
    mine, theirs = socket.socketpair()
    mine.setblocking(False)
    monkeypatch.setattr(load_client, "connect", lambda port: mine)
    yield Client(1, 0, Verdict()), theirs
    mine.close()
    theirs.close()


Ends = tuple[Client, socket.socket]
Serve = Callable[[Bank, list[str]], list[str]]


def honest(bank: Bank, words: list[str]) -> list[str]:
    return [bank.add(words[1], words[2], int(words[3]))]


def exchange(ends: Ends, bank: Bank, serve: Serve = honest) -> None:
    client, server = ends
    client.send()
    words = server.recv(1000).decode().split()
    server.sendall("".join(f"{line}\n" for line in serve(bank, words)).encode())
    client.receive()


def faults(client: Client) -> dict[str, int]:
    verdict = client.verdict
    found = {name: getattr(verdict, name) for name in ("lost", "duplicated", "changed", "broken")}
    return {name: count for name, count in found.items() if count}


def test_an_honest_server_has_no_faults(ends: Ends) -> None:
    bank = Bank()
    for _ in range(50):
        exchange(ends, bank)
    assert faults(ends[0]) == {}
    assert (ends[0].verdict.requests, ends[0].verdict.replies) == (50, 50)


@pytest.fixture
def pipelining(ends: Ends) -> Ends:
    return Client(1, 0, Verdict(), pipeline=3), ends[1]


def test_requests_that_are_sent_at_once_are_answered_one_by_one(pipelining: Ends) -> None:
    client, server = pipelining
    bank = Bank()
    client.send()
    lines = server.recv(1000).decode().splitlines()
    assert (len(lines), client.waiting) == (3, 3)
    for left, line in zip((2, 1, 0), lines, strict=True):
        server.sendall(f"{honest(bank, line.split())[0]}\n".encode())
        client.receive()
        assert client.waiting == left
    assert faults(client) == {}
    assert len(client.replied_ns) == client.verdict.replies == client.verdict.requests == 3


def test_a_reply_left_out_among_many_is_seen(pipelining: Ends) -> None:
    client, server = pipelining
    bank = Bank()
    client.send()
    replies = [honest(bank, line.split())[0] for line in server.recv(1000).decode().splitlines()]
    server.sendall(f"{replies[0]}\n{replies[2]}\n".encode())
    client.receive()
    assert faults(client) == {"changed": 1}
    assert client.waiting == 2


def test_a_request_done_twice_is_seen(ends: Ends) -> None:
    def twice(bank: Bank, words: list[str]) -> list[str]:
        honest(bank, words)
        return honest(bank, words)

    exchange(ends, Bank(), twice)
    assert faults(ends[0]) == {"duplicated": 1}


def test_a_reply_given_twice_is_seen(ends: Ends) -> None:
    exchange(ends, Bank(), lambda bank, words: honest(bank, words) * 2)
    assert faults(ends[0]) == {"duplicated": 1}


def test_a_server_that_forgot_is_seen(ends: Ends) -> None:
    exchange(ends, Bank())
    exchange(ends, Bank())
    assert faults(ends[0]) == {"lost": 1}


@pytest.mark.parametrize("field", [3, 4, 5, 6])
def test_whatever_is_changed_in_a_reply_is_seen(ends: Ends, field: int) -> None:
    def altered(bank: Bank, words: list[str]) -> list[str]:
        parts = honest(bank, words)[0].split()
        parts[field] = str(int(parts[field], 16) + 1)
        return [" ".join(parts)]

    exchange(ends, Bank(), altered)
    assert faults(ends[0]) == {"changed": 1}


def test_another_history_of_the_same_length_is_seen(ends: Ends) -> None:
    """A backup that read another clock, or drew another lot, has another digest."""
    exchange(ends, Bank())
    other = Bank()
    other.add("client1", "1", 2)
    exchange(ends, other)
    assert faults(ends[0]) == {"changed": 1}


def test_a_broken_connection_is_seen(ends: Ends) -> None:
    client, server = ends
    client.send()
    server.recv(1000)
    server.close()
    client.receive()
    assert faults(client) == {"broken": 1}


def test_the_wait_around_a_kill(ends: Ends) -> None:
    client, server = ends
    bank = Bank()
    exchange(ends, bank)
    client.send()
    kill_ns = time.monotonic_ns()
    assert client.longest_wait_ns(kill_ns) is None
    words = server.recv(1000).decode().split()
    time.sleep(0.03)
    server.sendall(f"{honest(bank, words)[0]}\n".encode())
    client.receive()
    exchange(ends, bank)
    wait_ns = client.longest_wait_ns(kill_ns)
    assert wait_ns is not None
    assert wait_ns >= 30_000_000
    assert client.longest_wait_ns(kill_ns - AROUND_NS - 10**9) == 0
