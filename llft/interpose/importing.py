"""Imports in ordered mode: one thread at a time, in the primary's order.

Who imports a module first runs it, locks and clock readings included; who comes later does not. So an import
is inside a mutex of the core. What was there at the program's birth needs none, nor do codecs: their modules
call nothing, and the interpreter imports them when one is first used, by whichever thread. The locks of the
import system are genuine: whether they are taken depends on what others import at that moment.

A program whose import waits for another thread that imports would wait for ever: it is told so.
"""

from __future__ import annotations

import _thread
import builtins
import importlib
import sys
from types import SimpleNamespace
from typing import Any

from llft import originals
from llft.interpose import passage
from llft.interpose.monitor import IMPORTING, Monitor
from llft.interpose.refusing import USE_TOKEN, RefusedImportError

PATIENCE_NS = 60_000_000_000
_CODECS = "encodings."
_genuine = SimpleNamespace(**vars(_thread))
"""As it was before anything was replaced."""

_native_import = builtins.__import__
_bootstrap: Any = importlib._bootstrap
_native_gcd_import = _bootstrap._gcd_import
_at_birth: frozenset[str] = frozenset()


class _Turn(Monitor):
    def too_long(self) -> None:
        raise RefusedImportError("*", f"an import waits for another thread that imports: {USE_TOKEN}")


_turn = _Turn(IMPORTING, PATIENCE_NS)


def ordered_import(
    name: str,
    globals: Any = None,  # noqa: A002
    locals: Any = None,  # noqa: A002
    fromlist: Any = (),
    level: int = 0,
) -> Any:
    known = not level and (name.startswith(_CODECS) or (name in _at_birth and not fromlist))
    if known or not passage.current():
        return _native_import(name, globals, locals, fromlist, level)
    with _turn:
        return _native_import(name, globals, locals, fromlist, level)


def _ordered_gcd_import(name: str, package: Any = None, level: int = 0) -> Any:
    """Below importlib.import_module."""
    if not passage.current():
        return _native_gcd_import(name, package, level)
    with _turn:
        return _native_gcd_import(name, package, level)


def install() -> None:
    """Last of all: what is there now is there at every replica's birth."""
    global _at_birth
    assert _genuine.allocate_lock is originals.allocate_lock
    _at_birth = frozenset(sys.modules)
    _bootstrap._thread = _genuine
    _bootstrap._gcd_import = _ordered_gcd_import
    builtins.__import__ = ordered_import
