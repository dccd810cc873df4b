def decode(buffer: bytearray, position: int, head: bytes, count: int) -> tuple[list[int], int]:
    """As `order_locks.locks_at`."""
