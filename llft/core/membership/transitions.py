"""The roles of a replica and the only ways from one to another.

    joining ---------> primary       first member of the group (backup change, line 11)
    joining ---------> backup        accepted (line 16); state may still be missing
    backup ----------> proposing     the primary is suspected (primary change, lines 1-7)
    proposing -------> recovering    all acknowledged (lines 14-16)
    recovering ------> primary       virtual synchrony point reached (lines 32-35)
    any but left ----> left          reset and rejoin: this process ends, a new one is born

A reset is not a return to `joining`: the paper regards a process that recovers as a new
process with a new birthId, so the old core is left behind and a new one joins.
"""

from __future__ import annotations

from typing import Final

from llft.core.standing import BACKUP, JOINING, LEFT, PRIMARY, PROPOSING, RECOVERING
from llft.errors import InvariantError

TRANSITIONS: Final[dict[str, tuple[str, ...]]] = {
    JOINING: (PRIMARY, BACKUP, LEFT),
    BACKUP: (PROPOSING, LEFT),
    PROPOSING: (RECOVERING, LEFT),
    RECOVERING: (PRIMARY, LEFT),
    PRIMARY: (LEFT,),
    LEFT: (),
}


def check_transition(old: str, new: str) -> None:
    if new not in TRANSITIONS[old]:
        raise InvariantError("illegal_role_transition", old=old, new=new)
