"""For `spark-submit`, which runs a file and no command: `spark-submit ... llft/cli/submit.py audit PATH`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # In place of this file's directory, whose modules are no top-level ones.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from llft.cli.main import main

    sys.exit(main())
