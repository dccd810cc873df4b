"""The simple way: no past is kept, and a State message carries the whole program."""

from __future__ import annotations

from collections.abc import Iterator

from llft.core import events
from llft.errors import InvariantError
from llft.simulator.application import Application


class Carried:
    """In the place of a `Keeping`."""

    fetching = restoring = False

    def __init__(self, application: Application) -> None:
        self.capture = application.capture
        self.restore = application.restore

    def repeat(self, thread: int) -> Iterator[events.Event]:
        """No earlier group left a thread."""
        raise InvariantError("nobody_to_repeat_a_call", thread=thread)

    def log_name(self) -> None:
        """There is no log."""

    def flush(self) -> None: ...
    def forget(self) -> None: ...
    def end(self) -> None: ...
