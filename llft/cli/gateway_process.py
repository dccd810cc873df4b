"""The process of one gateway: `python -m llft.cli.gateway_process`, started by the supervisor."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

from llft.errors import LlftError
from llft.runtime.gateway.process import GatewayProcess

SPECIFICATION = "LLFT_SPEC"
BAD_SPECIFICATION_STATUS = 78
SUPERSEDED_STATUS = 70
PR_SET_PDEATHSIG = 1


def main() -> int:
    try:
        specification = json.loads(os.environ[SPECIFICATION])
    except (KeyError, ValueError):
        sys.stderr.write("llft: this process is started by `llft run`, which tells it what to be\n")
        return BAD_SPECIFICATION_STATUS
    _end_with_parent()
    try:
        process = GatewayProcess(specification)
    except KeyError as missing:
        sys.stderr.write(f"llft: the specification of a gateway lacks {missing}\n")
        return BAD_SPECIFICATION_STATUS
    except (LlftError, OSError) as error:
        sys.stderr.write(f"llft: {error}\n")
        return BAD_SPECIFICATION_STATUS
    signal.signal(signal.SIGTERM, lambda number, frame: process.stop("SIGTERM"))
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all processes of a terminal; the supervisor acts
    process.run()
    return 0 if process.stopping else SUPERSEDED_STATUS


def _end_with_parent() -> None:
    """Ask the kernel to end us when the supervisor ends, however it ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
