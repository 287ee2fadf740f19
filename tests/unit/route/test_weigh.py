"""The weights of candidates, case by case from spec/vectors/weights.json."""

from typing import Any

import pytest

from gomodel_trio.route.health import Standing
from gomodel_trio.route.policy import Objective
from gomodel_trio.route.weigh import Weighed, weigh
from support.shared_cases import vector

VECTORS = vector("weights.json")


@pytest.mark.parametrize("case", VECTORS["weights"], ids=lambda case: case["name"])
def test_each_vector_gives_its_weights(case: dict[str, Any]) -> None:
    weighed = weigh(
        [
            Weighed(
                one.get("latency_s"),
                one.get("price"),
                one.get("weight", 0.0),
                Standing(one.get("standing", "well")),
                is_warm=one.get("warm", False),
            )
            for one in case["candidates"]
        ],
        Objective(case["objective"]),
        min_fraction=case["min_weight_fraction"],
        warm_weight=case["warm_cache_weight"],
    )
    assert weighed.weights == pytest.approx(case["weights"], rel=1e-12)
    if "latencies_s" in case:
        assert weighed.latencies_s == pytest.approx(case["latencies_s"], rel=1e-12)
