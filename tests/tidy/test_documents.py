"""What the documents promise exists."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from llft.cli.main import build_parser
from tests.tidy.sources import ROOT

DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/\w+")


def code_lines(text: str) -> list[str]:
    """The lines of fenced and indented code blocks, without prompts and comments."""
    lines, fenced = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            lines.append(line.strip().removeprefix("$ ").split("  #")[0].strip())
    return lines


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def commands(program: str) -> list[tuple[str, str]]:
    """Every command of this program in a code block or in backticks, with its document."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        candidates = [*code_lines(text), *re.findall(r"`([^`\n]+)`", text)]
        found += [(document.name, line) for line in candidates if line.startswith(program + " ")]
    return found


def test_make_commands_are_targets() -> None:
    found = commands("make")
    assert {"demo", "test"} <= {command.split()[1] for _, command in found}
    for document, command in found:
        assert command.split()[1] in make_targets(), f"{document}: {command}"


@pytest.mark.parametrize(("document", "command"), commands("llft"))
def test_llft_commands_parse(document: str, command: str) -> None:
    words = shlex.split(command)[1:]
    if words and words[-1] in ("--help", "--version"):
        words.pop()
    if words:
        build_parser().parse_args(words)


def test_documents_that_are_named_exist() -> None:
    for document in DOCUMENTS:
        for name in re.findall(r"\]\(([\w./-]+\.md)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / name).exists(), f"{document.name}: {name}"


def test_no_file_names_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ""} and path.is_file():
            found = MACHINE_PATH.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{name}: {found}"
