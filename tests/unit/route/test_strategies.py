"""Strategies as functions."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.names import SessionId
from gomodel_trio.route.strategies import order_keys, pick_cheapest, pick_round_robin

VECTORS = json.loads((Path(__file__).parents[3] / "spec/vectors/virtual_models.json").read_text())


@pytest.mark.parametrize("case", VECTORS["round_robin"], ids=lambda case: case["name"])
def test_each_round_robin_vector_gives_its_slots(case: dict[str, Any]) -> None:
    assert [pick_round_robin(case["weights"], turn) for turn in range(case["turns"])] == case["expect"]


def test_fractional_weights_get_their_shares_in_every_stretch() -> None:
    for start in (0, 12345):
        counts = Counter(pick_round_robin([0.75, 0.25, 0.1], turn) for turn in range(start, start + 1100))
        assert [round(counts[index], -1) for index in range(3)] == [750, 250, 100]


@pytest.mark.parametrize(
    ("prices", "expect"),
    [([None, 4.0, 3.0], 2), ([None, None], 0), ([2.0, 2.0], 0), ([None, 0.0, 1.0], 1), ([5.0], 0)],
)
def test_the_cheapest_priced_leg_is_picked(prices: list[float | None], expect: int) -> None:
    assert pick_cheapest(prices) == expect


def test_keys_rotate_without_a_session() -> None:
    orders = [order_keys(range(3), provider="a", session=None, turn=turn) for turn in range(4)]
    assert orders == [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 2)]


def test_a_key_left_out_leaves_even_turns_to_the_others() -> None:
    assert [order_keys((0, 2), provider="a", session=None, turn=turn)[0] for turn in range(4)] == [0, 2, 0, 2]


def test_a_session_keeps_its_key_when_another_is_left_out() -> None:
    for session in [SessionId(f"session-{number}") for number in range(20)]:
        order = order_keys(range(4), provider="a", session=session, turn=0)
        for gone in order[1:]:
            assert order_keys([key for key in range(4) if key != gone], provider="a", session=session, turn=0)[0] == order[0]


def test_a_session_keeps_its_key_when_another_is_added() -> None:
    sessions = [SessionId(f"session-{number}") for number in range(100)]
    before = [order_keys(range(3), provider="a", session=session, turn=0) for session in sessions]
    after = [order_keys(range(4), provider="a", session=session, turn=5) for session in sessions]
    assert [tuple(key for key in order if key != 3) for order in after] == before
    assert {order[0] for order in before} == {0, 1, 2}


def test_a_session_of_lone_surrogates_has_keys_too() -> None:
    assert sorted(order_keys(range(2), provider="a", session=SessionId("\ud800"), turn=0)) == [0, 1]
