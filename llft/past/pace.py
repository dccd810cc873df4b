"""How long a keeper takes over what."""

from __future__ import annotations

from typing import Final, NamedTuple

from llft.instant import SECOND


class Pace(NamedTuple):
    """The defaults are for real programs."""

    witnessed_calls_min: int = 64
    witness_ns: int = 2 * SECOND
    """A state of a busy program is verified over so much of its life, of an idle one over so many calls."""
    witnessed_bytes: int = 4 << 20
    """Or over so much log, if that comes sooner: two seconds of large messages take long to be repeated."""
    verification_ns: int = 120 * SECOND
    rest_max_ns: int = 10 * SECOND
    """A keeper rests longer than its last verification took, up to this."""
    lease_ns: int = 30 * SECOND
    """So long a state, and the log since, is kept for a joiner that was told of it, or was given a piece of
    it, last. It becomes the program by then, or asks for another piece."""

    def has_watched(self, calls: int, for_ns: int, log_bytes: int) -> bool:
        """Whether it is enough."""
        is_long = for_ns >= self.witness_ns or log_bytes >= self.witnessed_bytes
        return is_long and calls >= self.witnessed_calls_min


USUAL: Final = Pace()
