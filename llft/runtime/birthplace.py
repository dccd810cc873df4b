"""Where a process was started, and how its next life is started in its place.

The program sees nothing that differs from replica to replica, and what it changes ends with its life: so the
environment, the working directory and the umask are kept as the supervisor made them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import NoReturn

from llft import originals

FIXED = "LLFT_FIXED"
"""Its addresses were to be fixed; once is enough."""
OF_ONE_LIFE = ("LLFT_FORMER", "LLFT_IMAGE", "LLFT_SCRATCH", FIXED)


@dataclass(slots=True)
class Birthplace:
    environment: dict[str, str]
    directory: str
    umask: int

    def command(self) -> list[str]:
        return [sys.executable, *sys.orig_argv[1:]]

    def start_anew(self, environment: dict[str, str]) -> NoReturn:
        """Exec keeps the process id and the parent; everything else of this life ends here."""
        originals.chdir(self.directory)
        originals.umask(self.umask)
        originals.execve(sys.executable, self.command(), {**self.environment, **environment})


def born_here() -> Birthplace:
    """At the very start of a process. What is for this life alone is left out: the next one is told anew."""
    umask = os.umask(0o077)
    os.umask(umask)
    environment = {name: value for name, value in os.environ.items() if name not in OF_ONE_LIFE}
    return Birthplace(environment, os.getcwd(), umask)
