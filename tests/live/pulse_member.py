"""A replica whose program holds the interpreter's lock once: `python -m tests.live.pulse_member`.

The specification is in the environment, as `llft run` gives it; `hold` in it says which replica is to hold
the lock, and for how long. It does so in its first life, when there is a file `hold` in the run directory.
All replicas perform the same operations; what one of them does alone is no operation.
"""

from __future__ import annotations

import ctypes
import json
import os

from llft.core.determinizer.operations import Sleep
from llft.instant import MS
from llft.runtime.birthplace import born_here
from llft.runtime.replica_process import FORMER, SPECIFICATION, ReplicaProcess

TICK_NS = 20 * MS


def main() -> None:
    specification = json.loads(os.environ[SPECIFICATION])
    if FORMER in os.environ:
        specification["former"] = json.loads(os.environ[FORMER])
    replica, hold_ms = specification["hold"]
    held = specification["replica"] != replica or FORMER in os.environ
    trigger = specification["run_directory"] + "/hold"
    process = ReplicaProcess(specification, born_here())
    # PyDLL keeps the interpreter's lock while it sleeps: no thread of Python runs.
    usleep = ctypes.PyDLL(None).usleep

    def program() -> None:
        nonlocal held
        while True:
            process.call(Sleep(TICK_NS))
            if not held and os.path.exists(trigger):
                held = True
                process.say("holds the lock")
                usleep(hold_ms * 1000)
                process.say("gives the lock back")

    process.start()
    process.driver.run_main(program)


if __name__ == "__main__":
    main()
