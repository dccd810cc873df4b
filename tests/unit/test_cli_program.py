"""Which interpreter runs the user's command, and which words remain for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from llft.cli.main import main
from llft.cli.run import group_name
from llft.errors import MisuseError
from llft.runtime.supervisor.program import make_library, resolve
from tests.live.world import short_directory

PYTHON = sys.executable


@pytest.fixture
def server(tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text("print('hello')\n")
    return str(path)


def console_script(path: Path, *lines: str) -> str:
    path.write_text("\n".join([*lines, "print('hello')", ""]))
    path.chmod(0o755)
    return str(path)


def test_a_script(server: str) -> None:
    program = resolve([PYTHON, server, "--port", "80"])
    assert (program.interpreter, program.flags, program.words) == (PYTHON, (), (server, "--port", "80"))
    assert program.command("some.module") == [PYTHON, "-S", "-m", "some.module"]


def test_the_interpreters_own_options_stay_with_it(server: str) -> None:
    program = resolve([PYTHON, "-u", "-X", "dev", "-m", "http.server", "-b", "::"])
    assert program.flags == ("-u", "-X", "dev")
    assert program.words == ("-m", "http.server", "-b", "::")


def test_a_console_script(tmp_path: Path) -> None:
    script = console_script(tmp_path / "uvicorn", f"#!{PYTHON}")
    program = resolve([script, "app:app"])
    assert (program.interpreter, program.words) == (PYTHON, (script, "app:app"))


def test_a_console_script_whose_interpreter_has_a_long_path(tmp_path: Path) -> None:
    script = console_script(tmp_path / "tool", "#!/bin/sh", f'\'\'\'exec\' "{PYTHON}" "$0" "$@"', "' '''")
    assert resolve([script]).interpreter == PYTHON


def test_a_console_script_by_env(tmp_path: Path) -> None:
    script = console_script(tmp_path / "tool", "#!/usr/bin/env python3")
    assert Path(resolve([script]).interpreter).name == "python3"


@pytest.mark.parametrize(
    ("command", "condition"),
    [
        ([], "no-command"),
        (["no-such-command-anywhere"], "command-not-found"),
        (["sh", "-c", "true"], "not-a-python-program"),
        ([PYTHON], "no-program-file"),
        ([PYTHON, "-c", "print(1)"], "no-program-file"),
        ([PYTHON, "-I", "server.py"], "isolated-interpreter"),
        ([PYTHON, "-uE", "server.py"], "isolated-interpreter"),
        ([PYTHON, "-m"], "no-module"),
        ([PYTHON, "no-such-file.py"], "no-such-program"),
        ([PYTHON, "/"], "no-such-program"),
    ],
)
def test_what_cannot_be_run_is_named(command: list[str], condition: str) -> None:
    with pytest.raises(MisuseError) as caught:
        resolve(command)
    assert caught.value.condition == condition
    assert caught.value.remedy


def test_the_group_is_named_after_the_program(server: str) -> None:
    assert group_name([PYTHON, server]) == "server"
    assert group_name([PYTHON, "-m", "shop.web"]) == "shop.web"


def test_the_library_holds_llft_and_nothing_else(tmp_path: Path) -> None:
    library = make_library(tmp_path)
    assert make_library(tmp_path) == library
    assert [path.name for path in library.iterdir()] == ["llft"]
    assert (library / "llft" / "errors.py").is_file()


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        (["-n", "100000000"], "too-many-replicas"),
        (["--first", "999", "-n", "2"], "too-many-replicas"),
        (["--metrics", "99999999"], "metrics-port-unusable"),
    ],
)
def test_what_no_host_can_do_is_refused(
    options: list[str],
    condition: str,
    server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with short_directory() as home:
        monkeypatch.setenv("LLFT_HOME", str(home))
        assert main(["run", "--plain", *options, "--", sys.executable, server]) == 2
        assert condition in capsys.readouterr().err
