"""A simulated request lives as one in the gateway does: failover, retries, patience, cooldowns, to the number (behaviour.md §5, §6)."""

import msgspec
import pytest

from gomodel_trio.replay.simulate.engine import Run, run
from gomodel_trio.replay.simulate.scenario import StrategyName
from gomodel_trio.replay.simulate.scenario_file import parse_scenario
from gomodel_trio.replay.simulate.traffic import Conversation, Luck, Turn, Workload, draw_workload
from gomodel_trio.route.names import Kind, SessionId

LUCK = Luck(0.5, 0.5)


def turn(kind: Kind = Kind.UNARY, think_s: float = 0.0) -> Turn:
    return Turn(think_s, kind, 1000, 100, (LUCK,) * 4)


def at(*arrivals_s: float, kind: Kind = Kind.UNARY) -> Workload:
    return Workload(tuple(Conversation(at_s, None, (turn(kind),)) for at_s in arrivals_s), 1)


def play(targets: str, workload: Workload, strategy: StrategyName = StrategyName.COST, more: str = "", traffic: str = "") -> Run:
    text = f"duration: 10m\ntargets: [{targets}]\ntraffic: {{per_second: 1{traffic}}}\n{more}\n"
    return run(parse_scenario(text.encode()), workload, strategy)


CHEAP_AND_DEAR = (
    "{{name: a/m, latency: 1s, price: {{input: 1, output: 1}}, {0}}}, {{name: b/m, latency: 2s, price: {{input: 9, output: 9}}}}"
)


def ends(ran: Run) -> list[tuple[str, int, float]]:
    return [(one.end, one.attempts, round(one.latency_s, 6)) for one in ran.served]


def test_an_answer_takes_what_its_target_takes() -> None:
    ran = play("{name: a/m, latency: 1s, tokens_per_second: 50, price: {input: 2, output: 10}}", at(5.0))
    (one,) = ran.served
    assert (one.target, one.end, one.latency_s, one.attempts, one.cost_usd) == ("a/m", "ok", 3.0, 1, pytest.approx(0.003))
    assert ends(play("{name: a/m, latency: 1s, tokens_per_second: 50}", at(5.0, kind=Kind.STREAM))) == [("ok", 1, 1.0)]


def test_a_failed_attempt_goes_on_at_the_next_target() -> None:
    ran = play(CHEAP_AND_DEAR.format("outage: 500"), at(0.0))
    assert ends(ran) == [("ok", 2, 2.05)]
    assert ran.served[0].target == "b/m"


def test_the_third_fault_in_a_row_benches_a_target() -> None:
    ran = play(CHEAP_AND_DEAR.format("outage: 500"), at(0.0, 10.0, 20.0, 30.0, 49.0, 51.0))
    # At 51 s the first cooldown is over: a probe, which fails and doubles it.
    assert [one.attempts for one in ran.served] == [2, 2, 2, 1, 1, 2]
    assert [(each.target, each.reason, each.from_s, each.until_s) for each in ran.cooldowns] == [
        ("a/m", "fault", 20.05, 50.05),
        ("a/m", "fault", 51.05, 111.05),
    ]


def test_a_success_after_the_cooldown_proves_a_target() -> None:
    ran = play(CHEAP_AND_DEAR.format("phases: [{from: 0s, until: 40s, outage: 429}]"), at(0.0, 10.0, 50.0, 60.0))
    assert [(one.target, one.attempts) for one in ran.served] == [("b/m", 2), ("b/m", 1), ("a/m", 1), ("a/m", 1)]
    assert [(each.reason, each.from_s, each.until_s) for each in ran.cooldowns] == [("rate", 0.05, 30.05)]


def test_a_silent_target_gets_half_of_the_time_while_another_is_left() -> None:
    ran = play(CHEAP_AND_DEAR.format("outage: silence"), at(0.0), more="attempts: {request_timeout: 10s}")
    assert ends(ran) == [("ok", 2, 7.0)]


def test_a_stream_leaves_a_silent_target_after_its_first_event_timeout() -> None:
    more = "attempts: {first_event_timeout: 3s}"
    assert ends(play(CHEAP_AND_DEAR.format("outage: silence"), at(0.0, kind=Kind.STREAM), more=more)) == [("ok", 2, 5.0)]


def test_a_client_hangs_up_when_its_patience_ends() -> None:
    ran = play("{name: a/m, latency: 1s, outage: silence}", at(0.0), traffic=", patience: 4s")
    assert ends(ran) == [("gone", 1, 4.0)]
    assert ran.cooldowns == ()


def test_the_only_target_is_tried_again_after_a_wait() -> None:
    ran = play("{name: a/m, latency: 1s, phases: [{from: 0s, until: 500ms, outage: 503}]}", at(0.0))
    (one,) = ran.served
    assert (one.end, one.attempts) == ("ok", 2)
    assert 0.05 + 0.9 + 1.0 <= one.latency_s <= 0.05 + 1.1 + 1.0


def test_retries_are_bounded_and_only_for_what_waiting_helps() -> None:
    assert [each[:2] for each in ends(play("{name: a/m, latency: 1s, outage: 503}", at(0.0)))] == [("fault", 4)]
    assert ends(play("{name: a/m, latency: 1s, outage: 500}", at(0.0))) == [("fault", 1, 0.05)]
    long = "{name: a/m, latency: 1s, rate_limit: {per_second: 0.001, burst: 1, retry_after: 31s}}"
    assert ends(play(long, at(0.0, 5.0))) == [("ok", 1, 1.0), ("rate", 1, 0.05)]


@pytest.mark.parametrize("strategy", list(StrategyName))
def test_every_strategy_has_the_same_retries(strategy: StrategyName) -> None:
    ran = play("{name: a/m, latency: 1s, outage: 503}", at(0.0), strategy)
    assert [each[:2] for each in ends(ran)] == [("fault", 4)]


def test_a_client_may_leave_while_the_gateway_waits_to_retry() -> None:
    ran = play("{name: a/m, latency: 1s, outage: 503}", at(0.0), traffic=", patience: 500ms")
    assert ends(ran) == [("gone", 1, 0.5)]


def test_without_failover_the_first_failure_is_told() -> None:
    ran = play(CHEAP_AND_DEAR.format("outage: 500"), at(0.0), more="attempts: {failover: false}")
    assert ends(ran) == [("fault", 1, 0.05)]


def test_a_session_thinks_and_comes_back_to_its_warm_target() -> None:
    conversation = Conversation(0.0, SessionId("s"), (turn(), turn(think_s=10.0), turn(think_s=1000.0)))
    targets = "{name: a/m, latency: 1s, cache: {latency_factor: 0.5}}, {name: b/m, latency: 1s, cache: {latency_factor: 0.5}}"
    ran = play(targets, Workload((conversation,), 1), StrategyName.ADAPTIVE)
    first, second = ran.served  # the third would come after the scenario's end
    assert (first.arrived_at_s, second.arrived_at_s) == (0.0, 11.0)
    assert (first.latency_s, second.latency_s, second.is_cached) == (1.0, 0.5, True)
    assert first.target == second.target


def test_a_new_price_reaches_the_policy_when_it_holds() -> None:
    targets = (
        "{name: a/m, latency: 1s, price: {input: 2, output: 2}}, "
        "{name: b/m, latency: 1s, price: {input: 3, output: 3}, phases: [{from: 1m, until: 2m, price: {input: 1, output: 1}}]}"
    )
    assert [one.target for one in play(targets, at(0.0, 60.0, 119.0, 120.0)).served] == ["a/m", "b/m", "b/m", "a/m"]


def test_round_robin_and_adaptive_are_the_gateways_own() -> None:
    targets = "{name: a/m, latency: 1s}, {name: b/m, latency: 1s}"
    turns = [one.target for one in play(targets, at(0.0, 10.0, 20.0, 30.0), StrategyName.ROUND_ROBIN).served]
    assert turns == ["a/m", "b/m", "a/m", "b/m"]
    # Nine of ten requests at once: with an equal estimate the lower load of two draws keeps both busy.
    shares = [one.target for one in play(targets, at(*[0.0] * 100), StrategyName.ADAPTIVE).served]
    assert 40 <= shares.count("a/m") <= 60  # type: ignore[arg-type]


def test_least_loaded_takes_the_target_with_the_fewest_in_flight() -> None:
    targets = "{name: a/m, latency: 10s}, {name: b/m, latency: 1s}"
    ran = play(targets, at(0.0, 0.1, 1.5, 1.6), StrategyName.LEAST_LOADED)
    first, second, third, fourth = [one.target for one in ran.served]
    assert {first, second} == {"a/m", "b/m"}
    assert third == "b/m"  # the other still runs
    assert fourth in ("a/m", "b/m")


def test_least_loaded_passes_over_what_cools_and_tries_it_last() -> None:
    targets = "{name: a/m, latency: 1s, outage: 429}, {name: b/m, latency: 1s, phases: [{from: 1m, outage: 429}]}"
    ran = play(targets, at(58.0, 58.0, 59.0, 61.0), StrategyName.LEAST_LOADED)
    # At 61 s what was well fails, too; then what cools is asked, once, and not again after a wait.
    assert ends(ran) == [("ok", 1, 1.0), ("ok", 2, 1.05), ("ok", 1, 1.0), ("rate", 2, 0.1)]


def test_the_oracle_takes_what_will_answer_first() -> None:
    targets = "{name: a/m, latency: 1s, phases: [{from: 1m, outage: silence}]}, {name: b/m, latency: 2s}"
    ran = play(targets, at(0.0, 60.0), StrategyName.ORACLE)
    assert [(one.target, one.attempts) for one in ran.served] == [("a/m", 1), ("b/m", 1)]


@pytest.mark.parametrize(("objective", "target"), [("latency", "b/m"), ("balanced", "b/m"), ("cost", "a/m")])
def test_the_oracle_weighs_by_the_objective(objective: str, target: str) -> None:
    targets = "{name: a/m, latency: 3s, price: {input: 1, output: 1}}, {name: b/m, latency: 1s, price: {input: 2, output: 2}}"
    ran = play(targets, at(0.0), StrategyName.ORACLE, more=f"policy: {{objective: {objective}}}")
    assert [one.target for one in ran.served] == [target]


def test_where_nothing_would_answer_the_oracle_fails_like_the_others() -> None:
    ran = play("{name: a/m, latency: 1s, outage: 500}, {name: b/m, latency: 1s, outage: 500}", at(0.0), StrategyName.ORACLE)
    assert ends(ran) == [("fault", 2, 0.1)]


@pytest.mark.parametrize("strategy", list(StrategyName))
def test_the_same_seed_gives_the_same_run(strategy: StrategyName) -> None:
    text = b"""
duration: 60s
targets:
  - {name: a/m, latency: {lognormal: 1s, sigma: 0.5}, errors: {fraction: 0.3, status: 503}}
  - {name: b/m, latency: {uniform: [1s, 2s]}, rate_limit: {per_second: 1}}
traffic: {per_second: 3, stream_fraction: 0.5, sessions: {turns: [1, 3], think: 2s}}
"""
    scenario = parse_scenario(text)
    runs = [msgspec.json.encode(run(scenario, draw_workload(scenario, seed), strategy)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
