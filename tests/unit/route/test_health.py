"""Cooldown arithmetic, case by case from spec/vectors/cooldowns.json."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.health import WELL, Benched, Recovered, TargetHealth, after_first_byte, after_outcome, is_silence
from gomodel_trio.route.outcome import Outcome
from gomodel_trio.route.policy import AdaptiveRouting
from gomodel_trio.route.strategies import pick_last_resort

VECTORS = json.loads((Path(__file__).parents[3] / "spec/vectors/cooldowns.json").read_text())
CONFIG = AdaptiveRouting(cooldown_base_s=10, cooldown_max_s=60)


def fail(health: TargetHealth, started_at_s: float, at_s: float, **more: Any) -> tuple[TargetHealth, Benched | Recovered | None]:
    outcome = more.pop("outcome", Outcome.RATE)
    return after_outcome(health, started_at_s=started_at_s, at_s=at_s, outcome=outcome, retry_after_s=None, config=CONFIG, **more)


@pytest.mark.parametrize("case", VECTORS["cooldowns"], ids=lambda case: case["name"])
def test_each_vector_gives_its_deadlines(case: dict[str, Any]) -> None:
    config = AdaptiveRouting(cooldown_base_s=case["base_s"], cooldown_max_s=case["max_s"])
    health, until, streaks = WELL, [], []
    for event in case["events"]:
        if "first_byte" in event:
            health = after_first_byte(health, started_at_s=event["started_at_s"])
        else:
            health, _ = after_outcome(
                health,
                started_at_s=event["started_at_s"],
                at_s=event["at_s"],
                outcome=Outcome(event["outcome"]),
                retry_after_s=event.get("retry_after_s"),
                config=config,
                may_trigger=not event.get("again", False),
            )
        until.append(None if health.until_s == -math.inf else health.until_s)
        streaks.append(health.k)
    assert until == case["until"]
    assert streaks == case["k"]


@pytest.mark.parametrize("case", VECTORS["last_resort"], ids=lambda case: case["name"])
def test_each_vector_gives_its_last_resort(case: dict[str, Any]) -> None:
    healths = [TargetHealth(until_s=target["until_s"], reason=Outcome(target["reason"])) for target in case["targets"]]
    assert pick_last_resort(healths, case["pinned"]) == case["expect"]


def test_a_trigger_tells_why_and_how_long() -> None:
    _, change = fail(WELL, 0, 1)
    assert change == Benched(Outcome.RATE, 11, 10)


def test_a_renewal_that_does_not_lengthen_keeps_the_reason_of_the_longer_cooldown() -> None:
    benched, _ = fail(WELL, 0, 1, outcome=Outcome.AUTH)
    renewed, change = fail(benched, 2, 3)
    assert renewed.reason is Outcome.AUTH
    assert renewed.is_severe
    assert change == Benched(Outcome.RATE, 61, 58)


def test_only_a_success_that_ends_a_running_cooldown_is_a_recovery() -> None:
    benched, _ = fail(WELL, 0, 1)
    assert fail(benched, 2, 3, outcome=Outcome.SUCCESS)[1] == Recovered()
    proven, change = fail(benched, 12, 13, outcome=Outcome.SUCCESS)
    assert change is None
    assert not proven.is_on_probation(13)


def test_a_success_of_a_well_target_is_no_change() -> None:
    assert fail(WELL, 0, 1, outcome=Outcome.SUCCESS) == (WELL, None)


def test_attempts_at_one_instant_are_told_apart_by_their_order() -> None:
    benched, _ = fail(WELL, 5, 5, started_order=1, order=2)
    assert fail(benched, 5, 5, outcome=Outcome.SUCCESS, started_order=2)[0] is benched
    assert fail(benched, 5, 5, outcome=Outcome.SUCCESS, started_order=3)[1] == Recovered()


def test_a_cooldown_is_over_at_its_end_and_then_it_is_probation() -> None:
    benched, _ = fail(WELL, 0, 1)
    assert (benched.is_benched(10.999), benched.is_on_probation(10.999)) == (True, False)
    assert (benched.is_benched(11), benched.is_on_probation(11)) == (False, True)


def test_a_thousand_triggers_do_not_overflow() -> None:
    health = TargetHealth(k=5000)
    assert fail(health, 0, 1)[0].until_s == 61


@pytest.mark.parametrize("wish_s", [math.nan, math.inf])
def test_a_retry_after_that_is_no_number_stays_within_the_maximum(wish_s: float) -> None:
    health, _ = after_outcome(WELL, started_at_s=0, at_s=1, outcome=Outcome.RATE, retry_after_s=wish_s, config=CONFIG)
    assert health.until_s == (11 if math.isnan(wish_s) else 61)


@pytest.mark.parametrize(
    ("elapsed_s", "estimate_s", "expect"),
    [(29.9, None, False), (30, None, True), (30, 1.0, True), (39.9, 5.0, False), (40, 5.0, True)],
)
def test_silence_is_thirty_seconds_or_eight_times_the_estimate(elapsed_s: float, estimate_s: float | None, expect: bool) -> None:
    assert is_silence(elapsed_s, estimate_s) is expect
