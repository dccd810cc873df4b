"""The port between interposition and driver: all that the replaced modules know of replication."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from llft.core.determinizer.operations import Operation, Result


class Port(Protocol):
    def call(self, operation: Operation) -> Result:
        """Blocks the calling application thread until the operation is complete."""

    def resume(self) -> Result:
        """The same of a call that the thread had begun without the port, and that has come to it since."""

    def spawn(self, function: Callable[[], None]) -> int:
        """A new application thread; its number."""

    def current(self) -> int:
        """Number of the calling application thread; 0: not one of the program's."""

    def ordered(self) -> bool:
        """Whether the program's threads run side by side (D-16), and not one at a time."""

    def listening(self, host: str, port: int) -> None:
        """The program listens (told to the gateway); idempotent."""

    def not_listening(self, host: str, port: int) -> None: ...

    def ended(self, status: int) -> NoReturn:
        """The program ends, with this exit status: the process does, when what it said last is delivered."""

    def group_of(self, host: str, port: int) -> int:
        """Group id that serves this address by configuration, alike at all replicas; 0: none."""

    def gateway(self) -> int:
        """Group id of the newest gateway; 0: none. Only inside an Obtain: replicas may know others."""
