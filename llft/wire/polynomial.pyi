def crc32(data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
    """As zlib.crc32."""

def joined(first: int, second: int, second_size: int, /) -> int: ...
