"""Imports that are refused are found in the program's own files."""

from __future__ import annotations

from pathlib import Path

from llft.cli.check import REFUSED_CALL
from llft.cli.import_scan import scan_program
from llft.config import ThreadMode
from llft.interpose.refusing import RefusedError, RefusedImportError


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_refused_imports_are_found_through_the_programs_own_modules(tmp_path: Path) -> None:
    write(tmp_path / "app.py", "import json\nimport shop.storage\n")
    write(tmp_path / "shop" / "__init__.py", "")
    write(tmp_path / "shop" / "storage.py", "from . import database\n")
    write(tmp_path / "shop" / "database.py", "import os\n\ndef connect():\n    import psycopg2\n")
    found = scan_program([str(tmp_path / "app.py")])
    assert [(Path(each.file).name, each.line, each.module) for each in found] == [
        ("database.py", 4, "psycopg2")
    ]
    assert found[0].remedy
    assert not found[0].optional


def test_an_import_that_may_fail_is_no_obstacle(tmp_path: Path) -> None:
    write(tmp_path / "app.py", "try:\n    import uvloop\nexcept ImportError:\n    uvloop = None\n")
    assert [each.optional for each in scan_program([str(tmp_path / "app.py")])] == [True]


def test_a_program_without_refused_imports_has_no_findings(tmp_path: Path) -> None:
    write(tmp_path / "app.py", "import asyncio\nfrom collections import deque\nimport app\n")
    assert scan_program([str(tmp_path / "app.py")]) == []


def test_in_ordered_mode_more_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "app.py", "import asyncio\nimport uvloop\n")
    found = scan_program([str(tmp_path / "app.py")], ThreadMode.ORDERED)
    assert [each.module for each in found] == ["asyncio", "uvloop"]
    assert "--threads token" in found[0].remedy


def test_refusals_are_recognised_in_what_a_program_wrote() -> None:
    call = RefusedError("os.fork", "use threads")
    module = RefusedImportError("gevent", "use asyncio")
    text = f"Traceback ...\nRefusedError: {call}\n  RefusedImportError: {module}\n"
    assert REFUSED_CALL.findall(text) == [("os.fork", "use threads"), ("gevent", "use asyncio")]
