"""The calls of one object -> what is wrong with them, with evidence."""

from __future__ import annotations

from collections.abc import Sequence

from llft.pipeline.histories.models import model_of
from llft.pipeline.histories.search import Answer, search
from llft.pipeline.histories.witness import Call, Contradiction, find_contradiction

WRONG_ORDER = "wrong-order"
"""Another order explains everything: the group told a wrong one."""
WRONG_HISTORY = "wrong-history"
"""No order explains what the clients saw."""
UNDECIDED = "undecided-history"
"""The group's order is wrong; whether another one would do took too long to find out."""

VERDICTS = {
    Answer.LINEARIZABLE: WRONG_ORDER,
    Answer.NOT_LINEARIZABLE: WRONG_HISTORY,
    Answer.UNDECIDED: UNDECIDED,
}


def judge(target: str, calls: Sequence[Call]) -> tuple[str, Contradiction] | None:
    """The verdict, and where the group's order first fails; None if it fails nowhere."""
    model = model_of(target)
    contradiction = find_contradiction(calls, model)
    if contradiction is None:
        return None
    return VERDICTS[search(calls, model)], contradiction
