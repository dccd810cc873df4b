"""Holds a lifeline until it is ended: `python -m tests.live.lifeline_holder DIRECTORY`.

A line of input makes it another program; if that is "willing", it says before that it goes of itself.
"""

from __future__ import annotations

import os
import sys

from llft.identifiers import BirthId
from llft.runtime.native.lifeline import Lifeline

HOST_ID = 7


def main() -> None:
    birth_id = BirthId(HOST_ID, os.getpid(), 1)
    line = Lifeline(sys.argv[1], birth_id)
    print(line.missing or "held", flush=True)
    if order := sys.stdin.readline():
        if order == "willing\n":
            line.close()
        os.execv("/bin/sleep", ["/bin/sleep", "60"])


if __name__ == "__main__":
    main()
