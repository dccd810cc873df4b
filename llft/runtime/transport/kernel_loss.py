"""For tests: the kernel loses datagrams, by chance, before anything of ours sees them. What no code of ours
has seen, dialogues (D-74) have not seen either.

There was a filter, too, for one's own multicasts, which come back on the host that sends them and are
dropped by their birth id (`envelope`). But a program in the kernel is run for each datagram that comes, and
of a busy group's one in hundreds is a member's own.
"""

from __future__ import annotations

import _socket
import struct
from array import array
from typing import Final

SO_ATTACH_FILTER: Final = 26
_INSTRUCTION: Final = struct.Struct("@HBBI")
_LOAD_WORD, _UNLESS_AT_LEAST, _RETURN = 0x20, 0x35, 0x06
_RANDOM_WORD: Final = 0xFFFF_F000 + 56
"""Where the kernel has one for a filter."""
_ALL: Final = 0xFFFF_FFFF
_PASS, _DROP = (_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, 0)

Code = list[tuple[int, int, int, int]]
"""Classic BPF."""


def losing(probability: float) -> Code:
    least = min(_ALL, int(probability * (_ALL + 1)))
    return [(_LOAD_WORD, 0, 0, _RANDOM_WORD), (_UNLESS_AT_LEAST, 1, 0, least), _DROP, _PASS]


def lose(sock: _socket.socket, probability: float) -> None:
    code = losing(probability)
    data = array("B", b"".join(_INSTRUCTION.pack(*instruction) for instruction in code))
    address, _ = data.buffer_info()
    sock.setsockopt(_socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(code), address))
