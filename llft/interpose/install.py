"""Puts the replacements into place, in a fresh interpreter, before the program's first import.

Order matters. The C modules come first: all of the standard library above them then follows by itself, if
it is imported later. What was imported before (our own core's imports: functools, reprlib, os, ...) has
copies of genuine functions; they are rebound. Then come the hooks for what the program will import, and the
few modules of Python code that decide something at import. It all happens in the program's main thread, which
the port must know as thread 1, for the seeds and the identity that are drawn here are ordered like everything
else.
"""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from llft.errors import MisuseError
from llft.interpose import (
    buffering,
    clocks,
    collecting,
    databases,
    ending,
    files,
    hashing,
    identity,
    importing,
    passage,
    pipes,
    randomness,
    refusals,
    resolving,
    selecting,
    side_by_side,
    signals,
    sockets,
    table,
    threads,
    ticking,
    writings,
)
from llft.interpose.clocks import replace_in_type
from llft.interpose.descriptors import table as descriptors
from llft.interpose.locks import Lock, NativeRLock, RLock
from llft.interpose.ordered_locks import OrderedLock
from llft.interpose.port import Port
from llft.interpose.refusing import RefusedError, refused_type, refuser

TOO_LATE = (
    "threading",
    "socket",
    "selectors",
    "queue",
    "random",
    "logging",
    "asyncio",
    "uuid",
    "subprocess",
)
_BEFORE_THE_PROGRAM = (
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "stringprep",
    "unicodedata",
    "linecache",
    "traceback",
    "warnings",
    "ast",
    "marshal",
)
"""Imported now, because the runtime or the interpreter might import them at one replica only."""

_AREAS = (
    threads,
    clocks,
    sockets,
    resolving,
    pipes,
    selecting,
    randomness,
    identity,
    collecting,
    signals,
    files,
    ending,
)


def install(port: Port) -> None:
    """From now on everything the program does goes through the port, and what cannot is refused."""
    _check(port)
    for name in _BEFORE_THE_PROGRAM:
        importlib.import_module(name)
    passage.enter(port)
    descriptors.prepare()
    replaced = _replace_all()
    _rebind(replaced)
    clocks.replace_datetime()
    identity.remember()
    collecting.begin()
    refusals.install(
        {
            "_ssl": _refuse_tls,
            "_sqlite3": databases.order_sources,
            **(
                {"tempfile": side_by_side.seed_temporary_names}
                if passage.ordered
                else {"socket": buffering.guard_files_of}
            ),
            "asyncio.futures": hashing.count_futures,
            "asyncio.tasks": hashing.count_tasks,
        }
    )
    ticking.install()
    writings.begin()
    _prepare_python_modules()
    if passage.ordered:
        importing.install()


def _check(port: Port) -> None:
    late = [name for name in TOO_LATE if name in sys.modules]
    if late:
        raise MisuseError(
            "interposed_too_late", "interpose in a fresh interpreter, first of all", imported=late
        )
    if sys.flags.hash_randomization:
        raise MisuseError("hashes_are_random", "start Python with PYTHONHASHSEED=0")
    if port.current() != passage.MAIN_THREAD:
        raise MisuseError(
            "not_the_main_thread", "install in the program's main thread", thread=port.current()
        )


def replacements() -> dict[str, dict[str, object]]:
    """By module and name; without what is refused."""
    merged: dict[str, dict[str, object]] = {}
    for area in (*_AREAS, side_by_side) if passage.ordered else _AREAS:
        for module, names in area.replacements().items():
            merged.setdefault(module, {}).update(names)
    return merged


def _replace_all() -> dict[int, tuple[object, object]]:
    """Returns (genuine, replacement) by the identity of the genuine one."""
    replaced: dict[int, tuple[object, object]] = {}
    everything = replacements()
    for name in sorted({*everything, *table.ROWS}):
        module = _imported(name)
        if module is None:
            continue
        wanted = {**_refused(name, module), **everything.get(name, {})}
        for attribute, replacement in wanted.items():
            genuine = getattr(module, attribute, None)
            if genuine is None:
                continue
            # A builtin function is no descriptor: kept in a class it does not become a method. Nor must ours.
            ours = staticmethod(replacement) if isinstance(replacement, FunctionType) else replacement
            setattr(module, attribute, ours)
            replaced[id(genuine)] = (genuine, ours)
    return replaced


def _imported(name: str) -> ModuleType | None:
    """Not every build of Python has all of them."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _refused(name: str, module: ModuleType) -> dict[str, Callable[..., object]]:
    if name not in table.ROWS:
        return {}
    remedies = {
        attribute: known.reason
        for attribute, known in table.classes(name).items()
        if known.treatment == "refused" and hasattr(module, attribute)
    }
    remedies |= dict.fromkeys(table.unclassified(name, vars(module)), table.UNCLASSIFIED)
    return {
        attribute: _stand_in(f"{name}.{attribute}", remedy, getattr(module, attribute))
        for attribute, remedy in remedies.items()
    }


def _stand_in(name: str, remedy: str, genuine: object) -> Callable[..., object]:
    return refused_type(name, remedy, genuine) if isinstance(genuine, type) else refuser(name, remedy)


def _rebind(replaced: dict[int, tuple[object, object]]) -> None:
    """Copies in modules that were imported before: os has posix's, functools has _thread's RLock."""
    for name, module in list(sys.modules.items()):
        if name == "llft" or name.startswith("llft.") or not isinstance(module, ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            found = replaced.get(id(value))
            if found is not None and found[0] is value:
                setattr(module, attribute, found[1])
    for thing in gc.get_objects():
        if isinstance(thing, functools.cached_property) and isinstance(
            getattr(thing, "lock", None), NativeRLock
        ):
            thing.lock = RLock()  # type: ignore[attr-defined]


def _prepare_python_modules() -> None:
    threading: Any = importlib.import_module("threading")
    if not isinstance(threading.current_thread()._tstate_lock, (Lock, OrderedLock)):
        raise MisuseError("interposed_too_late", "threading has genuine locks")
    queue: Any = importlib.import_module("queue")
    uuid: Any = importlib.import_module("uuid")
    if passage.ordered:
        side_by_side.prepare(threading, queue, uuid)
    queue.SimpleQueue = queue._PySimpleQueue
    c_queue: Any = importlib.import_module("_queue")
    c_queue.SimpleQueue = queue._PySimpleQueue
    uuid._GETTERS = [randomness.node]
    uuid._UuidCreate = None


def _refuse_tls(module: Any) -> None:
    def refused(*arguments: object, **named: object) -> object:
        raise RefusedError("ssl.SSLContext.wrap_socket", refusals.TLS_REMEDY)

    for name in ("_wrap_socket", "_wrap_bio"):
        replace_in_type(module._SSLContext, name, refused)
    module.RAND_bytes = staticmethod(randomness.urandom)
