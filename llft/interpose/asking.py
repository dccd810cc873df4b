"""Asking the outside for a value: the primary's answer is every replica's (Obtain).

Answers are plain values (numbers, texts, bytes, tuples, lists) in the interpreter's own marshal format; all
replicas run the same Python. An OSError is an answer too, and so is what the genuine function says of wrong
arguments: raised inside the core's step it would end one replica after the other. The question is put inside
that step: it must be short, use genuine functions only, and import nothing.
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
_TOO_LONG = 7
_ERRORS: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, OverflowError)
"""What genuine functions raise, by number. `ask` gives the same again."""


def ask(name: str, native: Callable[..., Any], *arguments: object) -> Any:
    """What the genuine function gives at the primary."""

    def produce() -> bytes:
        imported_count = len(sys.modules)
        passage.asking = passage.current()
        try:
            data = marshal.dumps((-1, native(*arguments)))
        except OSError as error:
            data = marshal.dumps((0, (error.errno or 0, str(error.strerror))))
        except (ValueError, TypeError, OverflowError) as error:
            kind = next(number for number, kind in enumerate(_ERRORS) if isinstance(error, kind))
            data = marshal.dumps((kind, (str(error),)))
        finally:
            passage.asking = 0
        if len(sys.modules) != imported_count and not passage.ordered:  # there, others import meanwhile
            # The locks of the import system count, and only the primary has been here.
            raise InvariantError("imported_while_asking", name=name, modules=[*sys.modules][imported_count:])
        if len(data) > ANSWER_BYTES_MAX:
            return marshal.dumps((0, (_TOO_LONG, f"the answer of {name} is too long")))
        return data

    data = passage.call(Obtain(name, produce))
    if not isinstance(data, bytes):
        raise InvariantError("obtained_no_bytes", name=name, result=data)
    error, answer = marshal.loads(data)
    if error >= 0:
        raise _ERRORS[error](*answer)
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
