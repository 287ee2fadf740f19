"""Power of two choices, case by case from spec/vectors/draws.json."""

import math
from typing import Any

import pytest

from gomodel_trio.route.choose import draw, load_of, pick_of_two
from support.shared_cases import vector

VECTORS = vector("draws.json")


@pytest.mark.parametrize("case", VECTORS["draw"], ids=lambda case: case["name"])
def test_each_uniform_number_draws_its_candidate(case: dict[str, Any]) -> None:
    assert draw(case["weights"], case["uniform"]) == case["expect"]


@pytest.mark.parametrize("case", VECTORS["pick"], ids=lambda case: case["name"])
def test_the_lower_load_of_two_drawn_wins(case: dict[str, Any]) -> None:
    assert pick_of_two(case["weights"], case["loads"], tuple(case["draws"])) == case["expect"]


@pytest.mark.parametrize("weights", [*VECTORS["refused"], [math.nan, 1.0], [1.0, math.inf]], ids=str)
def test_by_such_weights_nobody_can_be_drawn(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="finite number above 0"):
        draw(weights, 0.5)


def test_a_load_counts_the_request_that_would_come() -> None:
    assert load_of(0.25, 0) == 0.25
    assert load_of(0.25, 3) == 1.0
