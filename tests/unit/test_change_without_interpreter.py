"""In the compiled lane the primary is changed without the interpreter: its code and its data are in
no cache then, and clients wait for each piece of them to come from memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from llft.lane import choice

LAST_OF_TWO = """
import sys
from llft.core.events import PeerDied
from tests.paper.playbook import Playbook

with Playbook() as play:
    play.join("s1", alone=True)
    play.join("s2")
    play.run(200)
    dead = play["s1"].standing.birth_id
    play.crash("s1")
    play.drop()
    core, interpreted = play["s2"], []
    assert core.role == "backup" and "compiled" in sys.modules[type(core).__module__].__file__

    def note(frame, event, argument):
        if event == "call":
            interpreted.append(frame.f_code.co_qualname)

    death = PeerDied(dead)
    sys.setprofile(note)
    effects = core.step(death, play.now_ns)
    sys.setprofile(None)
    assert core.role == "primary" and effects
    print(interpreted)
    play.records.clear()
"""


def test_nothing_is_interpreted_in_the_step_in_which_the_last_of_two_becomes_the_primary() -> None:
    if choice.why_not():
        pytest.skip(choice.why_not())
    done = subprocess.run(
        [sys.executable, "-c", LAST_OF_TWO],
        env={**os.environ, "LLFT_LANE": "compiled"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
