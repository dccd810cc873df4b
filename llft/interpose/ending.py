"""The end of the program: its connections are closed, as a system closes those of a process that ends.

So their streams end at all replicas at the same point, and clients read an end and not a reset. `os._exit`
and signals whose default is to end the process come here, too: without this they would end it with the last
replies still on their way (`runtime.last_words`).
"""

from __future__ import annotations

import posix
from typing import NoReturn

from llft.interpose import passage
from llft.interpose.descriptors import table
from llft.interpose.monitor import entered
from llft.interpose.tcp import TcpSocket

_native_exit = posix._exit


@entered
def close_connections() -> None:
    """By the program's thread that ends it. Others may have a turn meanwhile, and close their own; not so in
    ordered mode, where they are kept outside."""
    for number, description in list(table.descriptions.items()):
        if isinstance(description, TcpSocket) and table.get(number) is description:
            table.remove(number)


def exit_now(status: int) -> NoReturn:
    """`os._exit`: no exit functions, no flushing."""
    if passage.current():
        close_connections()
        passage.port().ended(int(status) & 0xFF)
    _native_exit(status)


def replacements() -> dict[str, dict[str, object]]:
    return {"posix": {"_exit": exit_now}}
