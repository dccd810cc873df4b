"""Linearizability of client histories: the witness, and the search where it fails."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.errors import PeerError
from llft.pipeline.histories.judge import WRONG_HISTORY, WRONG_ORDER, judge
from llft.pipeline.histories.models import MODELS, model_of
from llft.pipeline.histories.search import Answer, search
from llft.pipeline.histories.witness import ENDLESS_NS, Call, find_contradiction

ACCOUNT = "account:a"


def add(amount: int, result: str | None, call_ns: int, return_ns: int | None, order: int) -> Call:
    return Call("c", f"ADD {amount}", result, call_ns, return_ns or ENDLESS_NS, order)


def take(number: int, call_ns: int, return_ns: int) -> Call:
    return Call("c", "TAKE", str(number), call_ns, return_ns, number)


CLEAN = [add(5, "1 5", 0, 10, 1), add(7, "2 12", 5, 20, 2), add(1, "3 13", 30, 40, 3)]


def test_a_clean_history_is_explained_by_its_order() -> None:
    assert judge(ACCOUNT, CLEAN) is None


def test_a_call_without_reply_may_fill_a_hole_in_the_order() -> None:
    calls = [add(5, "1 5", 0, 10, 1), add(7, None, 11, None, 0), add(1, "3 13", 30, 40, 3)]
    assert judge(ACCOUNT, calls) is None


def test_a_call_without_reply_may_not_have_happened() -> None:
    assert judge(ACCOUNT, [*CLEAN, add(9, None, 50, None, 0)]) is None


def test_a_wrong_result_is_named_and_no_order_explains_it() -> None:
    calls = [*CLEAN[:2], add(1, "3 14", 30, 40, 3)]
    found = judge(ACCOUNT, calls)
    assert found is not None
    verdict, contradiction = found
    assert verdict == WRONG_HISTORY
    assert (contradiction.condition, contradiction.order) == ("wrong-result", 3)
    assert "(2, 12)" in contradiction.expected
    assert contradiction.found == "ADD 1 = 3 14"


def test_a_lost_update_is_a_wrong_history() -> None:
    calls = [add(5, "1 5", 0, 10, 1), add(7, "1 7", 20, 30, 1)]
    found = judge(ACCOUNT, calls)
    assert found is not None
    assert found[0] == WRONG_HISTORY


def test_a_wrongly_told_order_of_a_right_history_is_a_wrong_order() -> None:
    swapped = [CLEAN[0]._replace(order=2), CLEAN[1]._replace(order=1), CLEAN[2]]
    found = judge(ACCOUNT, swapped)
    assert found is not None
    assert found[0] == WRONG_ORDER


def test_real_time_order_is_part_of_it() -> None:
    calls = [take(2, 0, 10), take(1, 20, 30)]
    found = judge("tickets:7", calls)
    assert found is not None
    verdict, contradiction = found
    assert verdict == WRONG_HISTORY
    assert (contradiction.condition, contradiction.order) == ("wrong-real-time-order", 2)


def test_concurrent_calls_may_take_effect_either_way() -> None:
    assert judge("tickets:7", [take(2, 0, 30), take(1, 20, 25)]) is None


def test_a_ticket_given_twice_is_found() -> None:
    found = judge("tickets:7", [take(1, 0, 30), take(1, 20, 25)])
    assert found is not None
    assert found[1].condition == "wrong-result"


def test_an_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(PeerError, match="account"):
        model_of("queue:1")


def test_a_search_that_takes_too_long_is_undecided() -> None:
    assert search(CLEAN, MODELS["account"], step_limit=2) is Answer.UNDECIDED


@st.composite
def histories(draw: st.DrawFn) -> list[Call]:
    """Few calls, small numbers: wrong as often as right."""
    calls = []
    for _ in range(draw(st.integers(1, 5))):
        call_ns = draw(st.integers(0, 8))
        answered = draw(st.booleans()) or draw(st.booleans())
        amount = draw(st.integers(0, 1))
        result = f"{draw(st.integers(1, 3))} {draw(st.integers(0, 2))}" if answered else None
        return_ns = call_ns + draw(st.integers(1, 6)) if answered else None
        calls.append(add(amount, result, call_ns, return_ns, 0))
    return calls


def by_trying_all_orders(calls: list[Call]) -> bool:
    pending = [index for index, call in enumerate(calls) if call.result is None]
    for count in range(len(pending) + 1):
        for left_out in combinations(pending, count):
            kept = [call for index, call in enumerate(calls) if index not in left_out]
            if any(_is_explained(list(order)) for order in permutations(kept)):
                return True
    return False


def _is_explained(order: list[Call]) -> bool:
    placed = [call._replace(order=number) for number, call in enumerate(order, start=1)]
    return find_contradiction(placed, MODELS["account"]) is None


@given(histories())
def test_the_search_agrees_with_trying_all_orders(calls: list[Call]) -> None:
    expected = Answer.LINEARIZABLE if by_trying_all_orders(calls) else Answer.NOT_LINEARIZABLE
    assert search(calls, MODELS["account"]) is expected
