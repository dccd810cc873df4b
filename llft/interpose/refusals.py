"""Modules that do their own I/O and have their own threads in C: refused at import, with the remedy.

The error is an ImportError, so that programs which try (uvicorn: `try: import uvloop`) fall back to what
can be replicated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from llft.interpose import passage
from llft.interpose.refusing import USE_TOKEN, RefusedImportError

_PURE_CLIENT = "use a client in pure Python, which goes through the interposed sockets"
REFUSED: dict[str, str] = {
    "uvloop": "run on asyncio's own loop (uvicorn: --loop asyncio)",
    "gevent": "use threads or asyncio; they are interposed already",
    "eventlet": "use threads or asyncio; they are interposed already",
    "grpc._cython": "use grpclib, or put HTTP before the service",
    "psycopg2": "use pg8000",
    "psycopg2cffi": "use pg8000",
    "psycopg_c": "use pg8000",
    "psycopg_binary": "use pg8000",
    "psycopg": "use pg8000",
    "asyncpg": "use pg8000",
    "confluent_kafka": "use kafka-python",
    "MySQLdb": "use PyMySQL",
    "pymssql": _PURE_CLIENT,
    "oracledb.thick_impl": "use the thin mode",
    "zmq": "use TCP sockets or asyncio streams",
    "pycurl": "use http.client, urllib3 or httpx",
    "greenlet": "use threads or asyncio; they are interposed already",
}

REFUSED_SIDE_BY_SIDE: dict[str, str] = {
    "asyncio": f"its loop is told by other threads without a lock, and gains nothing of them: {USE_TOKEN}",
}
"""In ordered mode (D-16)."""

TLS_REMEDY = "session keys cannot be replicated: let the gateway speak TLS, and the program plain TCP"


def remedy_for(name: str, *, ordered: bool = False) -> str | None:
    """Of a module, or of one that it is in."""
    refused = REFUSED | REFUSED_SIDE_BY_SIDE if ordered else REFUSED
    while name:
        if name in refused:
            return refused[name]
        name = name.rpartition(".")[0]
    return None


class Refusal:
    """A finder in front of all others. `after` are things to do to a module once it has been executed."""

    def __init__(self, after: dict[str, Callable[[ModuleType], None]]) -> None:
        self._after = after

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        remedy = remedy_for(name, ordered=passage.ordered)
        if remedy is not None:
            raise RefusedImportError(name, remedy)
        if name not in self._after:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._after[name])  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, loader: Any, after: Callable[[ModuleType], None]) -> None:
        self._loader, self._after = loader, after

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def install(after: dict[str, Callable[[ModuleType], None]]) -> None:
    sys.meta_path.insert(0, Refusal(after))
