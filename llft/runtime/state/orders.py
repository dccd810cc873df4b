"""What a process that becomes an image is to do then: in a file without a name, on a descriptor that stays.

Whoever wakes up in the image's memory knows all about another process, and nothing of this one.
"""

from __future__ import annotations

import json
import posix
from typing import Any, NamedTuple, NoReturn

from llft import originals
from llft.runtime.native import image

ORDERS_FD = 598
"""Below the runtime's own descriptors, above the program's."""
_PIECE_BYTES = 1 << 16
_memfd_create, _dup2, _lseek = posix.memfd_create, posix.dup2, posix.lseek


class Orders(NamedTuple):
    specification: dict[str, Any]
    environment: dict[str, str]
    directory: str
    umask: int
    temporary: str
    path: str
    """Of the image."""
    base: list[Any]
    """Its fields, for a replica."""
    task: str
    """Of a scratch process; "": it is a replica."""


def become(orders: Orders) -> NoReturn:
    """The image goes on with these orders. ImageError: it cannot."""
    fd = _memfd_create("orders")
    data = json.dumps(orders).encode()
    while data:
        data = data[originals.write(fd, data) :]
    _dup2(fd, ORDERS_FD)
    image.restore(orders.path, ORDERS_FD)
    raise AssertionError("an image was restored, and this process is still there")


def read_orders() -> Orders:
    _lseek(ORDERS_FD, 0, 0)
    data = b""
    while piece := originals.read(ORDERS_FD, _PIECE_BYTES):
        data += piece
    originals.close(ORDERS_FD)
    return Orders(*json.loads(data))
