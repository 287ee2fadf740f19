"""Whole decisions of the selector, case by case from spec/vectors/selection.json."""

from typing import Any

import pytest

from gomodel_trio.route.decide import Candidate, DecisionInput, decide
from gomodel_trio.route.health import Standing
from gomodel_trio.route.latency import Estimate, Latency
from gomodel_trio.route.names import Kind
from gomodel_trio.route.policy import AdaptiveRouting, Objective
from support.shared_cases import vector

VECTORS = vector("selection.json")
SETTINGS = AdaptiveRouting(objective=Objective.LATENCY)


def candidate_of(name: str, spec: dict[str, Any]) -> Candidate:
    latency = Latency(**{kind: Estimate(*spec[kind]) for kind in ("stream", "unary") if kind in spec})
    plain = {key: value for key, value in spec.items() if key not in ("stream", "unary", "standing")}
    return Candidate(name, latency, standing=Standing(spec.get("standing", "well")), **plain)


def input_of(case: dict[str, Any]) -> DecisionInput:
    return DecisionInput(
        candidates=tuple(candidate_of(str(index), spec) for index, spec in enumerate(case["candidates"])),
        kind=Kind(case.get("kind", "unary")),
        at_s=case.get("at_s", 100.0),
        draws=tuple(case.get("draws", (0.3, 0.9))),
        settings=AdaptiveRouting(
            objective=Objective(case.get("objective", "latency")),
            min_weight_fraction=case.get("min_weight_fraction", 0.05),
            warm_cache_weight=case.get("warm_cache_weight", 8.0),
        ),
        allows_probe=case.get("allows_probe", True),
    )


@pytest.mark.parametrize("case", VECTORS["selections"], ids=lambda case: case["name"])
def test_each_vector_is_decided_as_written(case: dict[str, Any]) -> None:
    made = decide(input_of(case))
    for name, expected in case["expect"].items():
        shown = getattr(made, name)
        assert shown == (pytest.approx(expected, rel=1e-12) if isinstance(expected, list) else expected), name


@pytest.mark.parametrize("candidates", [(), (Candidate("a", standing=Standing.COOLING),)], ids=["none", "all cooling"])
def test_where_nobody_can_be_drawn_nothing_is_decided(candidates: tuple[Candidate, ...]) -> None:
    with pytest.raises(ValueError, match="weights"):
        decide(DecisionInput(candidates, Kind.UNARY, 0.0, (0.5, 0.5), SETTINGS))
