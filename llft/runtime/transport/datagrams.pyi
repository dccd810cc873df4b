from collections.abc import Mapping, Sequence

GMAC_BY_INSTRUCTIONS: bool

def gmac(key: bytes, number: bytes, data: bytes, by_instructions: bool) -> bytes:
    """As the standard has it."""

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
        by_instructions: bool = True,
    ) -> None: ...
    def seal(self, data: bytes, channel: int) -> bytes: ...
    def send(self, data: bytes, channel: int, addresses: Sequence[tuple[str, int]]) -> None: ...
    def receive(self, fd: int, most: int) -> list[tuple[bytes, int, int, bytes, int]]: ...
    def set_prefix(self, prefix: bytes) -> None: ...
    def close(self) -> None: ...
    def counts(self) -> dict[str, int]: ...
