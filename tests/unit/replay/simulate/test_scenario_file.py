"""A scenario file is read as strictly as the configuration (behaviour.md §10)."""

from pathlib import Path

import pytest

from gomodel_trio.errors import ConfigurationError
from gomodel_trio.replay.simulate.scenario import (
    Cache,
    Distribution,
    Errors,
    Measure,
    Outage,
    Rate,
    RateLimit,
    Sessions,
    StrategyName,
)
from gomodel_trio.replay.simulate.scenario_file import parse_scenario, read_scenario
from gomodel_trio.route.policy import AdaptiveRouting, Objective, Price

LEAST = """
duration: 1m
targets: [{name: a/m, latency: 800ms}]
traffic: {per_second: 1}
"""


def faults_of(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        parse_scenario(text.encode(), "s.yaml")
    return [str(fault) for fault in raised.value.faults]


def test_the_least_scenario_has_the_gateways_defaults() -> None:
    scenario = parse_scenario(LEAST.encode(), "s")
    assert (scenario.name, scenario.seed, scenario.duration_s, scenario.measure) == ("s", 1, 60.0, Measure.P95)
    assert scenario.strategies == tuple(StrategyName)
    assert scenario.adaptive == AdaptiveRouting()
    assert scenario.rules.max_retries == 3
    assert scenario.limits.request_timeout_s == 600.0
    assert scenario.targets[0].segments == ((0.0, scenario.targets[0].segments[0][1]),)


def test_everything_that_can_be_said_is_read() -> None:
    scenario = parse_scenario(
        b"""
name: all
description: of it
duration: 10m
warm_up: 1m
seed: 7
measure: cost
strategies: [oracle, cost, oracle]
policy: {objective: cost, min_weight_fraction: 0.1, cooldown_base: 10s, cooldown_max: 1m, warm_cache_weight: 4, warm_cache_ttl: 5m,
  latency_decay: 20s}
attempts: {failover: false, max_attempts: 2, max_retries: 1, initial_backoff: 500ms, max_backoff: 5s, request_timeout: 60s,
  header_timeout: 30s, first_event_timeout: 5s}
targets:
  - name: a/m
    weight: 2
    latency: {lognormal: 1s, sigma: 0.2}
    slower: 2
    tokens_per_second: 50
    concurrency: 4
    errors: {fraction: 0.1, status: 502, after: 1s}
    rate_limit: {per_second: 2, retry_after: 3s}
    price: {input: 1, output: 2}
    cache: {latency_factor: 0.5, price_factor: 0.1, ttl: 1m}
  - {name: b/m, latency: {uniform: [1s, 2s]}, outage: {status: 502, after: 1s}}
  - {name: c/m, latency: {constant: 1s}, outage: silence}
  - {name: d/m, latency: 1s, outage: 503, phases: [{from: 1m, until: 2m, outage: none}]}
traffic:
  per_second: 1
  phases: [{from: 1m, per_second: 2}]
  stream_fraction: 0.5
  input_tokens: [10, 20]
  output_tokens: 5
  patience: 20s
  sessions: {turns: [2, 3], think: 4s, prompt_growth_tokens: 100}
"""
    )
    assert (scenario.name, scenario.description, scenario.seed, scenario.warm_up_s) == ("all", "of it", 7, 60.0)
    assert scenario.strategies == (StrategyName.ORACLE, StrategyName.COST)
    # No failure raises an estimate beyond the time a request has.
    assert scenario.adaptive == AdaptiveRouting(True, Objective.COST, 0.1, 10.0, 60.0, 4.0, 300.0, 20.0, latency_cap_s=60.0)
    assert (scenario.rules.is_failover_enabled, scenario.rules.max_attempts, scenario.rules.max_retries) == (False, 2, 1)
    assert (scenario.limits.header_timeout_s, scenario.limits.first_event_timeout_s) == (30.0, 5.0)
    a, b, c, d = (target.segments for target in scenario.targets)
    conditions = a[0][1]
    assert conditions.latency == Distribution("lognormal", 1.0, 1.0, 0.2)
    assert (conditions.slower, conditions.tokens_per_second, conditions.concurrency) == (2.0, 50.0, 4)
    assert (conditions.errors, conditions.rate_limit) == (Errors(0.1, 502, 1.0), RateLimit(2.0, 2.0, 3.0))
    assert (conditions.price, conditions.cache) == (Price(1.0, 2.0), Cache(0.5, 0.1, 60.0))
    assert (b[0][1].latency, b[0][1].outage) == (Distribution("uniform", 1.0, 2.0), Outage(502, 1.0))
    assert (c[0][1].latency, c[0][1].outage) == (Distribution("constant", 1.0, 1.0), Outage(None))
    assert [(from_s, each.outage) for from_s, each in d] == [(0.0, Outage(503)), (60.0, None), (120.0, Outage(503))]
    traffic = scenario.traffic
    assert traffic.rates == (Rate(0.0, 1.0), Rate(60.0, 2.0))
    assert (traffic.stream_fraction, traffic.input_tokens, traffic.output_tokens, traffic.patience_s) == (0.5, (10, 20), (5, 5), 20.0)
    assert traffic.sessions == Sessions(2, 3, 4.0, 100)


def test_of_phases_that_overlap_the_later_one_counts() -> None:
    text = LEAST.replace("800ms}", "800ms, phases: [{from: 10s, slower: 2}, {from: 20s, until: 30s, slower: 3, outage: 500}]}")
    segments = parse_scenario(text.encode()).targets[0].segments
    assert [(from_s, each.slower, each.outage is not None) for from_s, each in segments] == [
        (0.0, 1.0, False),
        (10.0, 2.0, False),
        (20.0, 3.0, True),
        (30.0, 2.0, False),
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("duration: 1m", "duration: 1m\nsed: 3", "sed (line 3): unknown key 'sed'; did you mean 'seed'?"),
        ("duration: 1m", "duration: 0s", "duration (line 2): must be from 1s to 168h, not 0s"),
        ("duration: 1m", "", "has no 'duration'"),
        ("duration: 1m", "duration: 1m\nseed: 1.5", "seed (line 3): must be a whole number, not 1.5"),
        (
            "duration: 1m", "duration: 1m\nmeasure: p59",
            "measure (line 3): must be one of p95, mean, errors, cost, p95_times_cost, not 'p59'",
        ),
        ("duration: 1m", "duration: 1m\npolicy: {cooldown_max: 1s}", "policy.cooldown_max (line 3): must be at least 30s, not 1s"),
        ("duration: 1m", "duration: 1m\nattempts: {failover: 1}", "attempts.failover (line 3): must be true or false, not a number"),
        ("a/m", "a", "targets[0].name (line 3): must be provider/model, not 'a'"),
        ("latency: 800ms", "slower: 2", "targets[0] (line 3): has no 'latency'"),
        ("800ms", "soon", "targets[0].latency (line 3): 'soon' is no duration: write 30s, 5m, 1h30m, 250ms or a number of seconds"),
        ("800ms", "true", "targets[0].latency (line 3): must be a duration such as 30s, not true"),
        ("800ms", "{sigma: 1}", "targets[0].latency (line 3): must have exactly one of constant, uniform, lognormal"),
        ("800ms", "{constant: 1s, sigma: 1}", "targets[0].latency (line 3): 'sigma' goes with lognormal only"),
        ("800ms", "{uniform: [2s, 1s]}", "targets[0].latency.uniform (line 3): must be two durations, [least, most]"),
        ("800ms", "1s, outage: 200", "targets[0].outage (line 3): must be a finite number from 400 to 599, not '200'"),
        ("800ms", "1s, errors: {status: 500}", "targets[0].errors (line 3): has no 'fraction'"),
        ("800ms", "1s, phases: [{from: 20s, until: 10s}]", "targets[0].phases[0] (line 3): ends before it begins"),
        ("800ms", "1s, phases: [{until: 10s}]", "targets[0].phases[0] (line 3): has no 'from'"),
        ("800ms}", "1s}, {name: a/m, latency: 1s}", "targets[1] (line 3): the target 'a/m' is declared twice"),
        ("[{name: a/m, latency: 800ms}]", "[]", "targets (line 3): has no target"),
        (
            "per_second: 1", "per_second: 1000000000",
            "traffic (line 4): more than 2,000,000 requests: shorten the scenario or thin the traffic",
        ),
        (
            "per_second: 1", "per_second: 1, input_tokens: [2, 1]",
            "traffic.input_tokens (line 4): must be a whole number or two of them, [least, most]",
        ),
        ("per_second: 1", "per_second: 1, input_tokens: [a, 1]", "traffic.input_tokens[0] (line 4): must be a number, not a string"),
        (
            "per_second: 1", "per_second: 1, phases: [{from: 9s, per_second: 1}, {from: 9s, per_second: 1}]",
            "traffic (line 4): the phases must begin one after the other",
        ),
    ],
)  # fmt: skip
def test_a_fault_names_its_place(old: str, new: str, fault: str) -> None:
    assert faults_of(LEAST.replace(old, new)) == [f"s.yaml: {fault}"]


def test_all_faults_are_told_at_once() -> None:
    assert faults_of("targets: 3\ntraffic: 4\nduration: x\n") == [
        "s.yaml: duration (line 3): 'x' is no duration: write 30s, 5m, 1h30m, 250ms or a number of seconds",
        "s.yaml: targets (line 1): must be a list, not a number",
        "s.yaml: traffic (line 2): must be a mapping, not a number",
    ]


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yaml: cannot be read: No such file"):
        read_scenario(tmp_path / "none.yaml")


def test_a_file_gives_its_name_to_a_scenario_without_one(tmp_path: Path) -> None:
    (tmp_path / "busy.yaml").write_text(LEAST)
    assert read_scenario(tmp_path / "busy.yaml").name == "busy"
