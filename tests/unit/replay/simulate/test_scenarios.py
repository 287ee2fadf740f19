"""What the shipped scenarios claim: adaptive next to the oracle and to every other strategy; where it falls short, by how much and why."""

from functools import cache
from pathlib import Path

import msgspec
import pytest

from gomodel_trio.replay.simulate.report import BUCKETS, Report, simulate
from gomodel_trio.replay.simulate.scenario import Scenario, StrategyName
from gomodel_trio.replay.simulate.scenario_file import read_scenario

SHIPPED = Path(__file__).parents[4] / "spec" / "scenarios"
NAMES = ["agent-sessions", "cold-start", "flapping", "price-war", "rate-limited", "regional-outage", "slow-target"]
RIVALS = [StrategyName.ROUND_ROBIN, StrategyName.COST, StrategyName.LEAST_LOADED]


def scenario(name: str) -> Scenario:
    return read_scenario(SHIPPED / f"{name}.yaml")


@cache
def report_of(name: str) -> Report:
    return simulate(scenario(name))


def measure(report: Report, strategy: StrategyName) -> float:
    found = report.of(strategy).measure
    assert found is not None
    return found


def test_every_shipped_scenario_is_tried_and_begins_with_a_comment() -> None:
    files = sorted(SHIPPED.glob("*.yaml"))
    assert [file.stem for file in files] == NAMES
    assert all(file.read_text(encoding="utf-8").startswith("# ") for file in files)


@pytest.mark.parametrize("name", NAMES)
def test_adaptive_is_near_the_oracle(name: str) -> None:
    report = report_of(name)
    assert report.p95_over_oracle is not None
    assert report.error_points_over_oracle is not None
    assert report.p95_over_oracle <= 1.15
    assert report.error_points_over_oracle <= 1.0


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rate-limited"])
def test_adaptive_is_better_than_every_other_strategy(name: str) -> None:
    report = report_of(name)
    assert all(measure(report, StrategyName.ADAPTIVE) < measure(report, rival) for rival in RIVALS)


def test_at_a_rate_limit_the_cooldown_keeps_adaptive_behind_round_robin() -> None:
    limited = scenario("rate-limited")
    shorter = msgspec.structs.replace(limited, adaptive=msgspec.structs.replace(limited.adaptive, cooldown_base_s=5.0))
    round_robin = measure(report_of("rate-limited"), StrategyName.ROUND_ROBIN)
    assert 1.05 < measure(report_of("rate-limited"), StrategyName.ADAPTIVE) / round_robin < 1.08
    assert measure(simulate(shorter, strategies=[StrategyName.ADAPTIVE]), StrategyName.ADAPTIVE) / round_robin < 1.03


def test_in_a_price_war_two_draws_bound_the_share_of_the_cheapest() -> None:
    """It weighs four times as much as each of the other two: both draws are its own in (4/6)² of the cases, else the lower load wins."""
    report = report_of("price-war")
    adaptive, oracle = report.of(StrategyName.ADAPTIVE), report.of(StrategyName.ORACLE)
    cheapest = sum(slice_.answered[at * 3 // BUCKETS] for at, slice_ in enumerate(adaptive.slices))
    assert 0.42 < cheapest / adaptive.requests < 0.55
    assert adaptive.cost_usd < 0.9 * report.of(StrategyName.ROUND_ROBIN).cost_usd
    assert 2.0 < adaptive.cost_usd / oracle.cost_usd < 2.2  # at a third of the oracle's p95, which queues for the price


def test_of_two_targets_two_draws_leave_the_slow_one_more_than_p95_leaves_out() -> None:
    """It weighs a third of the other, so that both draws are its own in (1/4)² = 6 % of the cases."""
    slow = scenario("slow-target")
    report = simulate(
        msgspec.structs.replace(slow, targets=slow.targets[:2]),
        strategies=[StrategyName.ADAPTIVE, StrategyName.ROUND_ROBIN, StrategyName.ORACLE],
    )
    assert report.p95_over_oracle is not None
    assert 2.5 < report.p95_over_oracle < 3.0
    assert measure(report, StrategyName.ADAPTIVE) < measure(report, StrategyName.ROUND_ROBIN)


def test_a_session_is_kept_on_its_target_however_slow_that_becomes() -> None:
    agents = scenario("agent-sessions")
    first, *others = agents.targets
    conditions = others[0].segments[0][1]
    turned = msgspec.structs.replace(first, segments=((0.0, conditions), (300.0, msgspec.structs.replace(conditions, slower=3.0))))
    report = simulate(msgspec.structs.replace(agents, targets=(turned, *others)), strategies=[StrategyName.ADAPTIVE, StrategyName.ORACLE])
    assert report.p95_over_oracle is not None
    assert 1.3 < report.p95_over_oracle < 1.6
