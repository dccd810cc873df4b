"""Kinds of the calls that are made in dialogues (D-74), as the birth log has them."""

from __future__ import annotations

from typing import Final

from llft.core.determinizer.operations import (
    Park,
    RandomBytes,
    ReadClock,
    Receive,
    Select,
    Send,
    Unpark,
    Yield,
)
from llft.core.dialogue_lent import Kinds
from llft.past.birth_log import OPERATION_KINDS

RECEIVE: Final = OPERATION_KINDS[Receive]
SEND: Final = OPERATION_KINDS[Send]
SELECT: Final = OPERATION_KINDS[Select]
RANDOM_BYTES: Final = OPERATION_KINDS[RandomBytes]
PARK: Final = OPERATION_KINDS[Park]
KINDS_OF_TURNS: Final = (PARK, OPERATION_KINDS[Unpark], OPERATION_KINDS[Yield])
KINDS: Final[Kinds] = (RECEIVE, SEND, OPERATION_KINDS[ReadClock], SELECT, RANDOM_BYTES)
MAY_TALK: Final = frozenset((*KINDS, PARK, OPERATION_KINDS[Unpark]))
"""Those that a dialogue is lent for."""
