"""SQLite's own sources of luck and time, which are in C: in SQL they are the group's, as everywhere else.

`random()` and `randomblob()` draw ordered bytes. The functions of dates and times read the group's clock
where they would read the host's ("now", or nothing at all), and leave the rest to SQLite: a connection of our
own computes what the genuine function makes of that moment. CURRENT_TIMESTAMP and its like are functions.

What else a database does follows from the program's calls: its files are the replica's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from llft.interpose import clocks, randomness

_FACTORY_POSITION = 5
"""Among the arguments of `connect`."""
_CURRENT = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}
_BEFORE_THE_MOMENT = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
"""How many arguments come before the one that is a moment."""
_INTEGER_BYTES = 8

_now_ns = clocks.clock_ns("time_ns", clocks.REALTIME)
_gmtime, _strftime = time.gmtime, time.strftime


def order_sources(module: ModuleType) -> None:
    """Of `_sqlite3`, before anybody has seen it."""
    native: Any = module
    connect, genuine = native.connect, native.Connection

    class Connection(genuine):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            arrange(self, connect(":memory:", factory=genuine, check_same_thread=False))

    def connect_ordered(*arguments: Any, **options: Any) -> Any:
        if len(arguments) <= _FACTORY_POSITION:
            options.setdefault("factory", Connection)
        return connect(*arguments, **options)

    Connection.__module__, Connection.__qualname__ = "sqlite3", "Connection"
    native.connect, native.Connection = connect_ordered, Connection


def arrange(connection: Any, genuine: Any) -> None:
    """`genuine` is a connection that has SQLite's own functions."""
    known = {name for (name,) in genuine.execute("SELECT DISTINCT name FROM pragma_function_list")}
    for name, before in _BEFORE_THE_MOMENT.items():
        if name in known:
            connection.create_function(name, -1, _of_moment(genuine, name, before), deterministic=True)
    for name, plain in _CURRENT.items():
        connection.create_function(name, 0, _of_moment(genuine, plain, 0))
    connection.create_function("random", 0, _random)
    connection.create_function("randomblob", 1, _random_blob)


def _of_moment(genuine: Any, name: str, before: int) -> Callable[..., Any]:
    def function(*arguments: Any) -> Any:
        values = list(arguments)
        if len(values) == before:
            values.append("now")
        if len(values) > before and isinstance(values[before], str) and values[before].lower() == "now":
            values[before] = _now()
        query = f"SELECT {name}({', '.join('?' * len(values))})"
        return genuine.execute(query, values).fetchone()[0]

    return function


def _now() -> str:
    """As SQLite reads it: in UTC, to the millisecond."""
    seconds, rest_ns = divmod(_now_ns(), 10**9)
    return f"{_strftime('%Y-%m-%d %H:%M:%S', _gmtime(seconds))}.{rest_ns // 10**6:03d}"


def _random() -> int:
    return int.from_bytes(randomness.urandom(_INTEGER_BYTES), "little", signed=True)


def _random_blob(size: int | None) -> bytes:
    return randomness.urandom(max(1, size or 0))
