"""A filter in the kernel: a member that speaks to its group is not woken by its own words.

A multicast on one host comes back to the sender, who shares the address with the other members. It would
be dropped by its birth id (`envelope`); dropped by the kernel it costs neither a wake-up nor a system call.
It is an economy only: where a kernel does not take the filter, the envelope still says whose words they are.

For tests the kernel can lose datagrams as well, by chance: what no code of ours has seen, dialogues (D-74)
have not seen either.
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
_RANDOM_WORD: Final = 0xFFFF_F000 + 56
"""Where the kernel has one for a filter."""
_ALL: Final = 0xFFFF_FFFF
_PASS, _DROP = (_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, 0)


Code = list[tuple[int, int, int, int]]
"""Classic BPF."""


def without_own(birth_id: BirthId) -> Code:
    """Shorter ones than an envelope pass: they are counted as what they are. The last word comes first: there
    processes of one host differ, so that what others say passes at once."""
    words = struct.unpack(">4I", BIRTH.pack(*birth_id))
    place = _UDP_HEADER_BYTES + BIRTH_START
    code = [(_LOAD_LENGTH, 0, 0, 0), (_UNLESS_AT_LEAST, 0, 2 * len(words) + 1, place + BIRTH.size)]
    for index in reversed(range(len(words))):
        code.append((_LOAD_WORD, 0, 0, place + 4 * index))
        code.append((_UNLESS_EQUAL, 0, 2 * index + 1, words[index]))
    return [*code, _DROP, _PASS]


def losing(probability: float) -> Code:
    """To be put before another program."""
    least = min(_ALL, int(probability * (_ALL + 1)))
    return [(_LOAD_WORD, 0, 0, _RANDOM_WORD), (_UNLESS_AT_LEAST, 1, 0, least), _DROP]


def ignore_own(sock: _socket.socket, birth_id: BirthId) -> None:
    with suppress(OSError):
        _attach(sock, without_own(birth_id))


def lose(sock: _socket.socket, probability: float, birth_id: BirthId | None) -> None:
    """In place of the filter that it has. `birth_id`: whose own words do not come back to it."""
    _attach(sock, losing(probability) + ([_PASS] if birth_id is None else without_own(birth_id)))


def _attach(sock: _socket.socket, code: Code) -> None:
    data = array("B", b"".join(_INSTRUCTION.pack(*instruction) for instruction in code))
    address, _ = data.buffer_info()
    sock.setsockopt(_socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(code), address))
