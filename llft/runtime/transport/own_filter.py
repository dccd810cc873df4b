"""A filter in the kernel: a member that speaks to its group is not woken by its own words.

A multicast on one host comes back to the sender, who shares the address with the other members. It would
be dropped by its birth id (`envelope`); dropped by the kernel it costs neither a wake-up nor a system call.
It is an economy only: where a kernel does not take the filter, the envelope still says whose words they are.
"""

from __future__ import annotations

import _socket
import struct
from array import array
from contextlib import suppress
from typing import Final

from llft.identifiers import BirthId
from llft.runtime.transport.envelope import BIRTH, BIRTH_START

SO_ATTACH_FILTER: Final = 26
_UDP_HEADER_BYTES: Final = 8
_INSTRUCTION: Final = struct.Struct("@HBBI")
_LOAD_LENGTH, _LOAD_WORD, _UNLESS_AT_LEAST, _UNLESS_EQUAL, _RETURN = 0x80, 0x20, 0x35, 0x15, 0x06
_ALL: Final = 0xFFFF_FFFF


def program(birth_id: BirthId) -> bytes:
    """Classic BPF. Shorter ones than an envelope pass: they are counted as what they are."""
    words = struct.unpack(">4I", BIRTH.pack(*birth_id))
    place = _UDP_HEADER_BYTES + BIRTH_START
    code = [(_LOAD_LENGTH, 0, 0, 0), (_UNLESS_AT_LEAST, 0, 2 * len(words) + 1, place + BIRTH.size)]
    for index, word in enumerate(words):
        code.append((_LOAD_WORD, 0, 0, place + 4 * index))
        code.append((_UNLESS_EQUAL, 0, 2 * (len(words) - index) - 1, word))
    code += [(_RETURN, 0, 0, 0), (_RETURN, 0, 0, _ALL)]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)


def ignore_own(sock: _socket.socket, birth_id: BirthId) -> None:
    code = array("B", program(birth_id))
    address, size = code.buffer_info()
    with suppress(OSError):
        sock.setsockopt(
            _socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", size // _INSTRUCTION.size, address)
        )
