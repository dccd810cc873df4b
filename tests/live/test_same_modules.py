"""A replica and a scratch process have the same modules when their program begins.

A module that the program is the first to import counts: its loops tick, the import system's locks are
released. A program restored in a scratch process would then yield elsewhere than the replica, and its trial
would fail, as soon as the log's head is long enough to have a yield in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from llft.runtime.settings import Settings, group_id_of
from tests.live.application_world import ROOT

PATIENCE_S = 60
MAKING = """
import json, sys
import llft.cli.replica_process as module
from llft.runtime.replica_process import ReplicaProcess
before = set(sys.modules)
ReplicaProcess(json.loads(sys.argv[1]), module.BIRTHPLACE)
print(sorted(set(sys.modules) - before))
"""


def test_making_a_replica_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    specification = {
        "group": tmp_path.name,
        "group_id": group_id_of(tmp_path.name),
        "run_directory": str(tmp_path),
        "settings": Settings().to_json(),
        "program": ["server.py"],
        "temporary": str(tmp_path / "tmp"),
        "replica": 1,
    }
    command = [sys.executable, "-c", MAKING, json.dumps(specification)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.replace("'", '"')) == []
