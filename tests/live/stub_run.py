"""`llft run` with stand-ins for replicas and gateway: stub_run.py GROUP REPLICAS WORD..."""

from __future__ import annotations

import sys
from pathlib import Path

from llft.cli.panel import EventLines
from llft.errors import LlftError
from llft.runtime.supervisor.plan import Plan
from llft.runtime.supervisor.program import Program
from llft.runtime.supervisor.run_directory import RunDirectory
from llft.runtime.supervisor.supervisor import Supervisor

ROOT = Path(__file__).resolve().parents[2]
STUB = "tests.live.stub_process"


def main(group: str, replicas: int, words: list[str]) -> int:
    plan = Plan(
        group=group,
        group_id=7,
        program=Program(sys.executable, (), ("stub", *words)),
        replicas=replicas,
        library=ROOT,
        head_start_s=0.1,
        replica_module=STUB,
        gateway_module=STUB,
    )
    try:
        return Supervisor(plan, RunDirectory.of_group(group), EventLines(sys.stdout)).run()
    except LlftError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
