"""Asking the outside for a value: the primary's answer is every replica's (Obtain).

Answers are plain values (numbers, texts, bytes, tuples, lists) in the interpreter's own marshal format; all
replicas run the same Python. An OSError is an answer too. The question is put inside the core's step: it
must be short, use genuine functions only, and import nothing.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable
from typing import Any

from llft.core.determinizer.operations import Obtain
from llft.errors import InvariantError
from llft.interpose import passage

ANSWER_BYTES_MAX = 65_535


def ask(name: str, native: Callable[..., Any], *arguments: object) -> Any:
    """What the genuine function gives at the primary."""

    def produce() -> bytes:
        imported_count = len(sys.modules)
        try:
            data = marshal.dumps((True, native(*arguments)))
        except OSError as error:
            data = marshal.dumps((False, (error.errno or 0, str(error.strerror))))
        if len(sys.modules) != imported_count:
            # The locks of the import system count, and only the primary has been here.
            raise InvariantError("imported_while_asking", name=name, modules=[*sys.modules][imported_count:])
        if len(data) > ANSWER_BYTES_MAX:
            return marshal.dumps((False, (7, f"the answer of {name} is too long")))
        return data

    data = passage.call(Obtain(name, produce))
    if not isinstance(data, bytes):
        raise InvariantError("obtained_no_bytes", name=name, result=data)
    good, answer = marshal.loads(data)
    if not good:
        raise OSError(*answer)
    return answer


def asking(name: str, native: Callable[..., Any], shape: Callable[[Any], object] | None = None) -> object:
    """A replacement that asks. `shape` makes the value of its parts again, where it is not a plain one."""

    def asked(*arguments: object) -> object:
        if not passage.current():
            return native(*arguments)
        if shape is None:
            return ask(name, native, *arguments)
        return shape(ask(name, lambda: tuple(native(*arguments))))

    asked.__name__ = name
    return asked
