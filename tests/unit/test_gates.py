"""Gates that threads wait at for their results (`llft/dialogue/gates.c`)."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from tests.unit.compiled_parts import compiled_part

PATIENCE_S = 20.0
TURNS = 2000


@pytest.fixture
def native() -> Any:
    return compiled_part("llft.reading_on")


def test_each_opening_is_for_one_wait(native: Any) -> None:
    """Two threads give one another the turn: neither is let through too often, nor waits for ever."""
    gates = [native.Gate(), native.Gate()]
    turns: list[int] = []

    def run(me: int) -> None:
        for _ in range(TURNS):
            gates[me].acquire()
            turns.append(me)
            gates[1 - me].release()

    threads = [threading.Thread(target=run, args=(me,), daemon=True) for me in (0, 1)]
    for thread in threads:
        thread.start()
    gates[0].release()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert turns == [0, 1] * TURNS


def test_one_that_is_open_is_not_opened_again(native: Any) -> None:
    """Else a later wait would be none."""
    gate = native.Gate()
    gate.release()
    with pytest.raises(RuntimeError, match="open"):
        gate.release()
    assert gate.acquire()


def test_handlers_of_signals_run_while_it_is_waited_for(native: Any) -> None:
    gate, seen = native.Gate(), []

    def handler(number: int, frame: object) -> None:
        seen.append(number)
        gate.release()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1)).start()
        assert gate.acquire()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]
