"""The checkpoints of one replica process: which source its program has, its keeper, and what joiners get.

Which source it is can be said when the program has begun: hooks are looked for in its main module. Until
then, and without a source, the log is kept from birth.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from llft.runtime.application import Restart
from llft.runtime.checkpoint import Base
from llft.runtime.driver import Driver
from llft.runtime.settings import Checkpoints as Choice
from llft.runtime.settings import GroupSettings
from llft.runtime.state.hooks import RESTORE, SNAPSHOT, Hooks
from llft.runtime.state.keeper import Keeper, Scratch
from llft.runtime.state.scratch import ScratchProcess
from llft.runtime.state.source import HOOKS, NONE, Captured, Interposed


class Checkpoints:
    """`tend`, `base` and `provide_state` are called with the driver's lock held."""

    def __init__(
        self,
        driver: Driver,
        settings: GroupSettings,
        prefix: str,
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        """`prefix` is of its files' names; `environment` is for scratch processes."""
        self._driver = driver
        self._choice = settings.checkpoints
        self._log_bytes = settings.checkpoint_log_kb * 1024
        self._prefix = prefix
        self._environment = environment
        self._say = say
        self.keeper: Keeper | None = None
        self._hooks: Hooks | None = None
        self.reason = "the program has not begun"
        """Why there are no checkpoints."""

    def program_begins(self, interposed: Interposed) -> None:
        """The interposition is in place, the program's first line is about to run."""
        self._hooks = Hooks(self._driver.application, interposed, f"{self._prefix}.state")

    def tend(self, now_ns: int) -> None:
        if self._hooks is None or not self._driver.is_quiescent():
            if self.keeper is not None:
                self.keeper.tend(now_ns)
            return
        if self.keeper is None and not self.reason.startswith("off"):
            self._choose()
        if self.keeper is not None:
            if self.keeper.source.name == HOOKS:
                self._hooks.look()
            self.keeper.tend(now_ns)

    def base(self) -> Base | None:
        return self.keeper.base if self.keeper is not None else None

    def provide_state(self, start: int, end: int, position: int) -> bytes | None:
        """A piece of a state, for a joiner."""
        path = self.keeper.file_of(position) if self.keeper is not None else ""
        if not path:
            return None
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            piece = file.read(end - start)
        return piece if len(piece) == end - start else None

    def restart(self, base: Base, head: bytes, state: bytes) -> Restart:
        """For a program that has not begun, and is to come to this state."""
        path = f"{self._prefix}.state-{base.position}"
        with open(path, "wb") as file:
            file.write(state)

        def restore() -> None:
            assert self._hooks is not None
            with self._driver.aside():
                self._hooks.restore(state)
            self._keep_by(self._hooks)
            assert self.keeper is not None
            self.keeper.adopt(base, path)

        return Restart(head, base.position, base.digest, restore)

    def close(self) -> None:
        if self.keeper is not None:
            self.keeper.close()

    def statistics(self) -> dict[str, int | str]:
        return self.keeper.statistics() if self.keeper else {"source": NONE, "why": self.reason}

    # -- the choice ------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """When the program first waits for something it may not have come to its hooks yet: they are looked
        for until they are there."""
        assert self._hooks is not None
        self.reason = self._obstacle(self._hooks)
        if not self.reason:
            self._keep_by(self._hooks)
            self._say(f"checkpoints by {HOOKS}: {SNAPSHOT} and {RESTORE}")

    def _obstacle(self, hooks: Hooks) -> str:
        if self._choice is Choice.NONE:
            return "off by configuration"
        if not self._driver.token:
            return "off: threads run side by side"
        if not hooks.are_there():
            return f"the program has no {SNAPSHOT} and {RESTORE}"
        return ""

    def _keep_by(self, source: Hooks) -> None:
        self.keeper = Keeper(self._driver, source, self._begin_scratch, self._say, log_bytes=self._log_bytes)

    def _begin_scratch(self, captured: Captured, head: bytes, followed: bytes) -> Scratch:
        assert self.keeper is not None
        command = [sys.executable, *sys.orig_argv[1:]]
        prefix = f"{self._prefix}.scratch"
        return ScratchProcess(
            prefix, command, self._environment, self.keeper.source.name, captured, (head, followed)
        )
