"""A process group that a verb starts for a while: a real `llft run` in the background."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from llft.cli.children import end, ending_with_us
from llft.cli.survey import Group, all_joined, survey
from llft.errors import LlftError, PeerError
from llft.runtime.supervisor.run_directory import RunDirectory

SURVEY_TIMEOUT_S = 0.2
POLL_INTERVAL_S = 0.02
TAIL_LINES = 25


class TrialFailure(LlftError):
    """The group did not do what it must: a result, and no fault of ours."""


class GroupRun:
    """`settings` are lines of this group's table in `llft.toml`, and `common` other tables of it, beside what
    the file `config` says. `launcher`: what runs the command, such as `ip netns exec`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        replicas: int,
        options: Sequence[str] = (),
        config: Path | None = None,
        settings: str = "",
        common: str = "",
        launcher: Sequence[str] = (),
    ) -> None:
        self.replicas = replicas
        self.directory = RunDirectory.of_group(name)
        self._command = list(command)
        self._options = list(options)
        self._given = config
        self._settings = settings
        self._common = common
        self._launcher = list(launcher)
        self._own: IO[str] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._run: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """`until` says when it is there."""
        command = [*self._launcher, sys.executable, "-m", "llft.cli.main", "run", "--plain"]
        command += ["--group", self.directory.group, "--replicas", str(self.replicas), *self._options]
        config = self._config()
        command += ["--config", config] if config else []
        self._run = subprocess.Popen(
            [*command, "--", *self._command],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
            preexec_fn=ending_with_us(signal.SIGTERM),
        )

    def _config(self) -> str:
        """What the user's file says, and the settings of this group, whose name nobody else knows."""
        if not self._settings and not self._common:
            return str(self._given) if self._given else ""
        self._own = tempfile.NamedTemporaryFile("w", suffix=".toml")  # noqa: SIM115 - closed by end()
        given = self._given.read_text() if self._given else ""
        table = f'[groups."{self.directory.group}"]\n{self._settings}\n' if self._settings else ""
        self._own.write(f"{given}\n{self._common}\n{table}")
        self._own.flush()
        return self._own.name

    def end(self) -> None:
        """Nothing of it runs after this; what it wrote remains."""
        if self._run is not None:
            end(self._run)
        self._output.close()
        if self._own is not None:
            self._own.close()

    def forget(self) -> None:
        """Remove what it wrote."""
        shutil.rmtree(self.directory.path, ignore_errors=True)

    def is_whole(self, group: Group) -> bool:
        return all_joined(group, self.replicas)

    def until(self, what: str, patience_s: float, holds: Callable[[Group], bool]) -> Group:
        """The group when it is so. TrialFailure: it does not become so."""
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s:
            assert self._run is not None
            if self._run.poll() is not None:
                raise TrialFailure(
                    "run-ended", f"it said:\n{self.output_tail()}", status=self._run.returncode
                )
            try:
                group = survey(self.directory, timeout_s=SURVEY_TIMEOUT_S)
            except PeerError:
                pass  # its control socket is not there yet
            else:
                if holds(group):
                    return group
            time.sleep(POLL_INTERVAL_S)
        raise TrialFailure(f"did-not-{what}", f"it said:\n{self.output_tail()}", seconds=patience_s)

    def output_tail(self) -> str:
        """The end of what `llft run` said."""
        self._output.seek(0)
        return "\n".join(self._output.read().decode(errors="replace").splitlines()[-TAIL_LINES:])
