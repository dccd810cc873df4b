"""Whose fault an error is shows in its type.

Every error carries a condition (a stable name, for machines), the parameters of
the case, and the remedy where there is one.
"""

from __future__ import annotations


class LlftError(Exception):
    """Base of all errors that LLFT raises on purpose."""

    def __init__(self, condition: str, remedy: str = "", **parameters: object) -> None:
        self.condition = condition
        self.remedy = remedy
        self.parameters = parameters
        super().__init__(condition, remedy, parameters)

    def __str__(self) -> str:
        details = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        text = f"{self.condition} ({details})" if details else self.condition
        return f"{text}: {self.remedy}" if self.remedy else text


class MisuseError(LlftError):
    """Our caller asked for something that makes no sense."""


class PeerError(LlftError):
    """Bytes from the wire (or a file) are not what a correct peer writes."""


class DivergenceError(LlftError):
    """This replica did something its primary did not do."""


class UnsupportedOperationError(LlftError):
    """The application asked for something that cannot be replicated."""


class InvariantError(LlftError):
    """A bug of ours. Never caught below the command line."""
