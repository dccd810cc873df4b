"""Large messages as several datagrams (D-12).

Every fragment is a whole datagram with the header fields of its message, its own fragment_index, and
a slice of the payload; order information rides on fragment 0 only. The receiver puts the slices
together by key, and can say which ones are missing, to have them Nacked one by one.

Laws: memory is bounded by `limit_bytes` and `limit_messages` whatever arrives, by giving up the message
that was begun first; what was given up is simply not received, and is asked for again. A
fragment count takes no memory, only fragments do.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from llft.errors import MisuseError, PeerError

FRAGMENT_COUNT_MAX: Final = 65_535
FRAGMENT_CHARGE_MIN: Final = 128
"""What a fragment costs at least against `limit_bytes`, however short: bookkeeping is memory too."""
_REMEDY: Final = "drop the datagram"


def slices(payload: bytes, limit: int, rest: int = 0) -> list[bytes]:
    """The payload in pieces of at most `limit` bytes: at least one, and only a single one may be empty.
    `rest` is the limit of all but the first, which leaves room for order information; 0: it is the same."""
    rest = rest or limit
    if not 1 <= limit <= rest:
        raise MisuseError("fragment_limit_out_of_range", "a datagram must have room for payload", limit=limit)
    size = len(payload)
    if size <= limit:
        return [payload]
    if size > limit * FRAGMENT_COUNT_MAX:
        raise MisuseError(
            "message_too_long",
            f"a message has at most {FRAGMENT_COUNT_MAX} fragments: raise datagram_bytes",
            size=size,
            limit=limit,
        )
    return [payload[:limit], *[payload[start : start + rest] for start in range(limit, size, rest)]]


class _Unfinished:
    __slots__ = ("charge", "count", "highest", "parts")

    def __init__(self, count: int) -> None:
        self.count = count
        self.parts: dict[int, bytes] = {}
        self.highest = -1
        self.charge = 0


class Reassembly:
    """Messages of which some fragments have come. The caller knows which messages it has whole, and does not
    bring their fragments again: a completed key is forgotten here."""

    def __init__(self, limit_bytes: int, limit_messages: int) -> None:
        if limit_bytes < 1 or limit_messages < 1:
            raise MisuseError("reassembly_limit_out_of_range", "both limits are at least 1")
        self._limit_bytes = limit_bytes
        self._limit_messages = limit_messages
        self._unfinished: dict[Hashable, _Unfinished] = {}
        self._bytes = 0
        self._peak_bytes = 0
        self._completed_count = 0
        self._dropped_count = 0
        self._duplicate_count = 0

    def add(self, key: Hashable, fragment_index: int, fragment_count: int, payload: bytes) -> bytes | None:
        """One fragment; the whole payload when it was the last one missing."""
        if not 0 <= fragment_index < fragment_count <= FRAGMENT_COUNT_MAX:
            raise PeerError(
                "fragment_index_out_of_range", _REMEDY, index=fragment_index, count=fragment_count
            )
        unfinished = self._unfinished.get(key)
        if unfinished is None:
            if fragment_count == 1:
                self._completed_count += 1
                return payload
            unfinished = self._unfinished[key] = _Unfinished(fragment_count)
        elif unfinished.count != fragment_count:
            raise PeerError(
                "fragment_count_inconsistent", _REMEDY, key=key, before=unfinished.count, now=fragment_count
            )
        if fragment_index in unfinished.parts:
            self._duplicate_count += 1
            return None
        self._store(unfinished, fragment_index, payload)
        if len(unfinished.parts) < unfinished.count:
            self._keep_bounds()
            return None
        self._forget(key)
        self._completed_count += 1
        return b"".join(unfinished.parts[index] for index in range(unfinished.count))

    def follows(self, key: Hashable, fragment_index: int, fragment_count: int) -> bool:
        """Whether all before it have come, and nothing else of this message."""
        unfinished = self._unfinished.get(key)
        if unfinished is None:
            return fragment_index == 0 < fragment_count
        return (
            fragment_count == unfinished.count
            and fragment_index == len(unfinished.parts) == unfinished.highest + 1
        )

    def begun(self, key: Hashable) -> tuple[int, list[bytes]] | None:
        """How many fragments a message has, and those that have come, if they are its first ones. Without
        any it has none. None: some have come that are not."""
        unfinished = self._unfinished.get(key)
        if unfinished is None:
            return 0, []
        if unfinished.highest + 1 != len(unfinished.parts):
            return None
        return unfinished.count, [unfinished.parts[index] for index in range(len(unfinished.parts))]

    def missing(self, key: Hashable) -> tuple[int, ...]:
        """The fragments still wanted of a message that has begun; empty for one that has not."""
        unfinished = self._unfinished.get(key)
        if unfinished is None:
            return ()
        return tuple(index for index in range(unfinished.count) if index not in unfinished.parts)

    @property
    def has_begun(self) -> bool:
        """Whether anything has come of a message that is not whole."""
        return bool(self._unfinished)

    def drop(self, key: Hashable) -> None:
        """Forget what has come of a message; nothing happens if nothing has."""
        if key in self._unfinished:
            self._forget(key)

    def unfinished(self) -> dict[Hashable, tuple[int, dict[int, bytes]]]:
        """By key: how many fragments a message has, and those that have come."""
        return {key: (each.count, dict(each.parts)) for key, each in self._unfinished.items()}

    def statistics(self) -> dict[str, int]:
        return {
            "unfinished_messages": len(self._unfinished),
            "unfinished_bytes": self._bytes,
            "peak_bytes": self._peak_bytes,
            "completed": self._completed_count,
            "dropped": self._dropped_count,
            "duplicates": self._duplicate_count,
        }

    def _store(self, unfinished: _Unfinished, fragment_index: int, payload: bytes) -> None:
        charge = max(len(payload), FRAGMENT_CHARGE_MIN)
        unfinished.parts[fragment_index] = payload
        unfinished.highest = max(unfinished.highest, fragment_index)
        unfinished.charge += charge
        self._bytes += charge
        self._peak_bytes = max(self._peak_bytes, self._bytes)

    def _forget(self, key: Hashable) -> None:
        self._bytes -= self._unfinished.pop(key).charge

    def _keep_bounds(self) -> None:
        while self._bytes > self._limit_bytes or len(self._unfinished) > self._limit_messages:
            self._forget(next(iter(self._unfinished)))
            self._dropped_count += 1
