"""Latency estimates, case by case from spec/vectors/latency.json."""

from typing import Any

import pytest

from gomodel_trio.route.latency import (
    NEVER_MEASURED_S,
    UNMEASURED,
    Estimate,
    Latency,
    after_answer,
    after_failure,
    after_hang_up,
    kind_to_read,
    presumed,
    read,
)
from gomodel_trio.route.names import Kind
from support.shared_cases import vector

VECTORS = vector("latency.json")


def near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-12)


def after(latency: Latency, event: dict[str, Any], kind: Kind, decay_s: float) -> Latency:
    at_s, presumed_s = event["at_s"], event.get("presumed_s", NEVER_MEASURED_S)
    if "answer" in event:
        return after_answer(latency, kind, event["answer"], at_s=at_s, decay_s=decay_s)
    if "failure" in event:
        return after_failure(latency, kind, event["failure"], at_s=at_s, cap_s=event.get("cap_s", 600.0), presumed_s=presumed_s)
    return after_hang_up(latency, kind, event["hang_up"], at_s=at_s, presumed_s=presumed_s)


def value_s(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value_s


@pytest.mark.parametrize("case", VECTORS["sequences"], ids=lambda case: case["name"])
def test_each_sequence_of_samples_gives_its_estimates(case: dict[str, Any]) -> None:
    latency, stored, answered = UNMEASURED, [], []
    for event in case["events"]:
        kind = Kind(event.get("kind", "unary"))
        latency = after(latency, event, kind, case["decay_s"])
        stored.append(value_s(latency.of(kind)))
        answered.append(value_s(latency.answered(kind)))
    assert stored == [near(value) for value in case["expect"]]
    if "answered" in case:
        assert answered == [near(value) for value in case["answered"]]


@pytest.mark.parametrize("case", VECTORS["readings"], ids=lambda case: case["name"])
def test_each_reading_is_as_written(case: dict[str, Any]) -> None:
    stored = [None if entry is None else Estimate(*entry) for entry in case["stored"]]
    assert read(stored, at_s=case["at_s"]) == [near(value) for value in case["expect"]]


@pytest.mark.parametrize("case", VECTORS["presumed"], ids=lambda case: str(case["known_s"]))
def test_what_was_never_measured_is_presumed(case: dict[str, Any]) -> None:
    assert presumed(case["known_s"]) == case["expect"]


@pytest.mark.parametrize("case", VECTORS["kinds"], ids=lambda case: case["name"])
def test_a_decision_reads_one_kind(case: dict[str, Any]) -> None:
    latencies = [Latency(**{kind: Estimate(1.0, 0.0) for kind in has}) for has in case["candidates"]]
    assert kind_to_read(Kind(case["kind"]), latencies) is Kind(case["expect"])
