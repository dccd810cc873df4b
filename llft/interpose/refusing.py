"""What cannot be replicated is refused, with the name of it and the remedy (D-17).

The error is an OSError too, because that is what programs expect of the system and often have a way round:
a library that probes for a feature then goes on without it. It says ENOSYS unless there is a better errno.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from llft.errors import UnsupportedOperationError

USE_TOKEN = "run it with --threads token"
"""The remedy for what cannot be ordered while threads run side by side (D-16)."""


class RefusedError(UnsupportedOperationError, OSError):
    def __init__(self, name: str, remedy: str, number: int = errno.ENOSYS) -> None:
        super().__init__("not_replicable", remedy, name=name)
        self.errno = number
        self.strerror = str(self)


class RefusedImportError(UnsupportedOperationError, ImportError):
    """So that `try: import uvloop` falls back to what can be replicated."""

    def __init__(self, module: str, remedy: str) -> None:
        super().__init__("import_not_replicable", remedy, module=module)
        self.name = module
        self.msg = str(self)


def refuser(name: str, remedy: str) -> Callable[..., object]:
    """A function that stands for the refused one."""

    def refused(*arguments: object, **named: object) -> object:
        raise RefusedError(name, remedy)

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__doc__ = f"Refused: {remedy}"
    return refused


def refused_type(name: str, remedy: str, genuine: type) -> type:
    """A class that stands for the refused one: its constants are there, for libraries read them at import
    and make an object only if they are asked to (multiprocessing.synchronize)."""
    constants = {key: value for key, value in vars(genuine).items() if type(value) in (int, str)}
    return type(genuine.__name__, (), {**constants, "__new__": refuser(name, remedy)})
