"""The end of the demo: its own journals, judged by Spark, and where the report lies.

Spark is an extra; without it the demo says how to get it, and has shown all else.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from llft.errors import MisuseError


def judge_journals(journals: Path) -> dict[str, Any]:
    """`violations`, `report`, and the lines to print. What it made outlives the demo's own directory."""
    from llft.pipeline.session import spark_session

    try:
        with spark_session() as spark:
            from llft.pipeline.audit.command import Question, audit

            store = Path(tempfile.mkdtemp(prefix="llft-audit-"))
            found = audit(spark, Question([journals], store))
    except MisuseError as error:
        return {"violations": 0, "report": "", "lines": [f"the journals were not audited: {error}"]}
    told = f"{found.violations} violations" if found.violations else "all properties hold"
    lines = [f"audit of the journals, by Spark: {told} ({found.records} records of {found.groups} groups)"]
    lines += [
        f"  {one['condition']}: {one['explanation']}" for one in found.shown if one["severity"] == "violation"
    ]
    lines.append(f"report: {found.report}")
    return {"violations": found.violations, "report": found.report, "lines": lines}
