"""What people are told of the replicas: each thing once."""

from __future__ import annotations

from pathlib import Path

from llft.runtime.control_client import Answer
from llft.runtime.supervisor.news import ACCOUNTS_MAX, News
from llft.runtime.supervisor.slot import Slot


class Watched:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.news = News(self.told.append)
        self.slots = {number: Slot("replica", number, Path(), Path()) for number in (1, 2)}

    def answers(self, number: int, role: str, account: str) -> None:
        slot = self.slots[number]
        status: Answer = {"role": role, "view": "1.1", "checkpoints": {"account": account}}
        former, slot.status = slot.status, status
        self.news.take(slot, former)


def test_a_role_is_told_when_it_changes() -> None:
    watched = Watched()
    for role in ("joining", "backup", "backup", "primary"):
        watched.answers(1, role, "")
    assert watched.told == [f"replica 1 is {role}, view 1.1" for role in ("joining", "backup", "primary")]


def test_where_states_come_from_is_told_once_for_all_replicas() -> None:
    watched = Watched()
    for number in (1, 2, 1):
        watched.answers(number, "", "checkpoints by image")
    watched.answers(2, "", "checkpoints by image; but none is taken now")
    watched.answers(1, "", "checkpoints by image; but none is taken now")
    assert watched.told == ["checkpoints by image", "checkpoints by image; but none is taken now"]


def test_words_that_change_all_the_time_do_not_fill_the_screen() -> None:
    watched = Watched()
    for number in range(10 * ACCOUNTS_MAX):
        watched.answers(1, "", f"trouble {number}")
    assert len(watched.told) == ACCOUNTS_MAX
