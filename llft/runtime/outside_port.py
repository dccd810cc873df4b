"""Of the interposition's port: how threads run, where the program listens, and who is where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llft.runtime.driver import Driver


class OutsidePort:
    driver: Driver
    specification: dict[str, Any]

    def __init__(self) -> None:
        self.listening_at: dict[tuple[str, int], None] = {}

    def ordered(self) -> bool:
        return not self.driver.token

    def listening(self, host: str, port: int) -> None:
        self.listening_at[(host, port)] = None

    def not_listening(self, host: str, port: int) -> None:
        self.listening_at.pop((host, port), None)

    def group_of(self, host: str, port: int) -> int:
        group_id: int = self.specification.get("endpoints", {}).get(f"{host}:{port}", 0)
        return group_id

    def gateway(self) -> int:
        """The group id of the newest gateway, 0 if there is none. At the primary only: the answer is
        ordered."""
        try:
            # As bytes: a codec would be imported here, by one replica only, in the midst of the program.
            with open(f"{self.specification['run_directory']}/gateway.id", "rb") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0
