from collections.abc import Mapping, Sequence

GMAC_BEST: int
"""How this processor does it: 0 without instructions, 1 by some for a block, 2 by some for four."""

def gmac(key: bytes, number: bytes, data: bytes, most: int) -> bytes:
    """As the standard has it, in one of these ways."""

class Datagrams:
    def __init__(
        self,
        sending_fd: int,
        largest: int,
        prefix: bytes,
        own_birth: bytes,
        keys: Mapping[int, bytes],
        person: bytes,
        gmac_keys: Mapping[int, bytes] = ...,
        gmac_most: int = 2,
    ) -> None: ...
    def seal(self, data: bytes, channel: int) -> bytes: ...
    def send(self, data: bytes, channel: int, addresses: Sequence[tuple[str, int]]) -> None: ...
    def receive(self, fd: int, most: int) -> list[tuple[bytes, int, int, bytes, int]]: ...
    def set_prefix(self, prefix: bytes) -> None: ...
    def set_ways(self, ways: Sequence[tuple[tuple[str, int], int]]) -> None: ...
    def close(self) -> None: ...
    def counts(self) -> dict[str, int]: ...
