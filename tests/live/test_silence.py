"""A process that is held as a debugger holds it is silent, not dead nor stopped by a signal, and goes on."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llft.cli.silence import Silence
from llft.errors import MisuseError

TALKER = """
import sys, threading, time
def talk():
    while True:
        time.sleep(0.001)
        sys.stdout.write("word\\n")
        sys.stdout.flush()
for _ in range(3):
    threading.Thread(target=talk).start()
"""


def states(pid: int) -> set[str]:
    return {
        path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")
    }


def hears(talker: subprocess.Popen[bytes], wait_s: float) -> bool:
    assert talker.stdout is not None
    return bool(select.select([talker.stdout], [], [], wait_s)[0])


def test_who_is_held_is_silent_and_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", TALKER], stdout=subprocess.PIPE, bufsize=0) as talker:
        try:
            assert talker.stdout is not None
            for _ in range(10):
                assert talker.stdout.readline() == b"word\n"
            silence = Silence(talker.pid)
            silence.begin()
            assert states(talker.pid) == {"t"}
            while hears(talker, 0):
                assert talker.stdout.read(65536)
            assert not hears(talker, 0.1)
            silence.end()
            assert hears(talker, 30)
            assert "t" not in states(talker.pid)
        finally:
            talker.kill()


def test_who_is_killed_meanwhile_is_let_go() -> None:
    with subprocess.Popen([sys.executable, "-c", TALKER], stdout=subprocess.PIPE, bufsize=0) as talker:
        silence = Silence(talker.pid)
        try:
            assert hears(talker, 30)
            silence.begin()
        finally:
            talker.kill()
            for _ in range(3000):
                silence.end()
                if talker.poll() is not None:
                    break
                time.sleep(0.01)
        assert talker.poll() is not None


def test_who_may_not_be_held_is_a_misuse() -> None:
    """Nobody traces himself."""
    with pytest.raises(MisuseError, match="right to trace"):
        Silence(os.getpid()).begin()
