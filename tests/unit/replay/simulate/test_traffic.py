"""The traffic of a scenario comes from its seed alone."""

import pytest

from gomodel_trio.replay.simulate.scenario import Scenario
from gomodel_trio.replay.simulate.scenario_file import parse_scenario
from gomodel_trio.replay.simulate.traffic import draw_workload
from gomodel_trio.route.names import Kind


def scenario(traffic: str) -> Scenario:
    text = "duration: 1000s\ntargets: [{name: a/m, latency: 1s}, {name: b/m, latency: 1s}]\ntraffic: " + traffic
    return parse_scenario(text.encode())


def test_equal_seeds_give_equal_traffic_and_others_another() -> None:
    one = scenario("{per_second: 0.5, stream_fraction: 0.5, sessions: {turns: [1, 4]}}")
    assert draw_workload(one, 1) == draw_workload(one, 1)
    assert draw_workload(one, 1) != draw_workload(one, 2)


def test_arrivals_keep_to_the_rate_of_their_phase() -> None:
    workload = draw_workload(scenario("{per_second: 0, phases: [{from: 200s, per_second: 2}, {from: 700s, per_second: 1}]}"), 1)
    arrivals = [each.at_s for each in workload.conversations]
    assert arrivals == sorted(arrivals)
    assert all(200.0 < at_s < 1000.0 for at_s in arrivals)
    assert sum(at_s < 700.0 for at_s in arrivals) == pytest.approx(1000, rel=0.1)
    assert sum(at_s >= 700.0 for at_s in arrivals) == pytest.approx(300, rel=0.2)


def test_a_turn_has_tokens_a_kind_and_a_luck_for_every_target() -> None:
    workload = draw_workload(scenario("{per_second: 1, stream_fraction: 0.25, input_tokens: [10, 20], output_tokens: 7}"), 1)
    turns = [turn for each in workload.conversations for turn in each.turns]
    assert {turn.input_tokens for turn in turns} == set(range(10, 21))
    assert {turn.output_tokens for turn in turns} == {7}
    assert sum(turn.kind is Kind.STREAM for turn in turns) / len(turns) == pytest.approx(0.25, abs=0.05)
    assert {len(turn.lucks) for turn in turns} == {2}
    assert {each.session for each in workload.conversations} == {None}


def test_sessions_have_turns_that_think_and_prompts_that_grow() -> None:
    traffic = "{per_second: 1, input_tokens: 100, sessions: {turns: [2, 3], think: 5s, prompt_growth_tokens: 50}}"
    conversations = draw_workload(scenario(traffic), 1).conversations
    assert {len(each.turns) for each in conversations} == {2, 3}
    assert len({each.session for each in conversations}) == len(conversations)
    assert {tuple(turn.input_tokens for turn in each.turns) for each in conversations} == {(100, 150), (100, 150, 200)}
    assert {each.turns[0].think_s for each in conversations} == {0.0}
    thoughts = [turn.think_s for each in conversations for turn in each.turns[1:]]
    assert sum(thoughts) / len(thoughts) == pytest.approx(5.0, rel=0.15)
