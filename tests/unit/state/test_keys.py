"""The keys of a provider that has several (behaviour.md §7): which are used, when they cool, when their target does."""

import json
from pathlib import Path
from typing import Any

import pytest

from gomodel_trio.route.health import Standing
from gomodel_trio.route.names import Kind, LeaseId, SessionId, TargetId
from gomodel_trio.route.outcome import Cause, Outcome
from gomodel_trio.route.policy import AdaptiveRouting, Leg, Policy, Provider, Strategy, VirtualModel
from gomodel_trio.state.commands import (
    AttemptEnded,
    Command,
    CooldownStarted,
    Decide,
    Decision,
    Fact,
    Finish,
    FirstByte,
    Inspect,
    Inspection,
    KeyFailed,
    KeyState,
    ReplacePolicy,
    Reply,
    ResetTarget,
    Stamped,
    TargetState,
)
from gomodel_trio.state.routing_state import RoutingState, step
from gomodel_trio.wire.dialect import Dialect

VECTORS = json.loads((Path(__file__).parents[3] / "spec/vectors/keys.json").read_text())
TARGET = TargetId("p/m")
SESSION = SessionId("s")


def policy(key_count: int = 2, *, fingerprint: str = "1", base_s: float = 30, max_s: float = 300, **more: Any) -> Policy:
    return Policy(
        providers={"p": Provider("p", "openai", Dialect.OPENAI, True, ("m", "n"), key_count=key_count, fingerprint=fingerprint)},
        virtual_models={"v": VirtualModel("v", (Leg("p/m"), Leg("p/n")), Strategy.ADAPTIVE)},
        adaptive=AdaptiveRouting(cooldown_base_s=base_s, cooldown_max_s=max_s),
        **more,
    )


class Run:
    """A state, and what the last command reported."""

    def __init__(self, first: Policy | None = None) -> None:
        self.state = RoutingState(first or policy())
        self.facts: tuple[Fact, ...] = ()

    def send(self, at_s: float, command: Command) -> Reply:
        reply, self.facts = step(self.state, Stamped(1, at_s, (0.5, 0.5), command))
        return reply

    def ask(self, at_s: float, name: str = "p/m", session: SessionId | None = None, **more: Any) -> Decision:
        reply = self.send(at_s, Decide(name, session, "/", Kind.STREAM, **more))
        assert isinstance(reply, Decision)
        return reply

    def shown(self, at_s: float) -> Inspection:
        reply = self.send(at_s, Inspect())
        assert isinstance(reply, Inspection)
        return reply

    def keys(self, at_s: float) -> list[Standing]:
        return [row.standing for row in self.shown(at_s).keys]

    def target(self, at_s: float, name: TargetId = TARGET) -> TargetState:
        return next(row for row in self.shown(at_s).targets if row.target == name)

    def refuse_all(self, at_s: float, outcome: Outcome = Outcome.RATE) -> None:
        """One request whose every key is refused at once."""
        made = self.ask(at_s)
        for key in made.keys[1:]:
            self.send(at_s, KeyFailed(made.lease, key, outcome))
        self.send(at_s, Finish(made.lease, outcome))


@pytest.mark.parametrize("case", VECTORS["keys"], ids=lambda case: case["name"])
def test_each_vector_of_keys_is_played_as_written(case: dict[str, Any]) -> None:
    run = Run(policy(case["key_count"], base_s=case["base_s"], max_s=case["max_s"]))
    open_leases: dict[str, LeaseId] = {}
    for number, event in enumerate(case["events"]):
        at_s, request = event["at_s"], event.get("request")
        match event["do"]:
            case "ask":
                made = run.ask(at_s)
                open_leases[request] = made.lease
                assert list(made.keys) == event["keys"], number
            case "next":
                run.send(
                    at_s, KeyFailed(open_leases[request], event["key"], Outcome(event["outcome"]), Cause.NONE, event.get("retry_after_s"))
                )
            case "end":
                run.send(at_s, Finish(open_leases[request], Outcome(event["outcome"]), Cause.NONE, event.get("retry_after_s")))
            case "content":
                run.send(at_s, FirstByte(open_leases[request]))
        if "key_standings" in event:
            assert [standing.value for standing in run.keys(at_s)] == event["key_standings"], number
        if "target_until_s" in event:
            left_s = run.target(at_s).cooldown_left_s
            assert (at_s + left_s if left_s else None) == event["target_until_s"], number


def test_each_key_of_a_request_is_an_attempt_of_its_own_timed_from_its_own_sending() -> None:
    run = Run()
    made = run.ask(0, "v")
    run.send(2, KeyFailed(made.lease, made.keys[1], Outcome.RATE))
    assert run.facts == (AttemptEnded(made.target, Outcome.RATE, Cause.NONE, 2),)
    run.send(3, FirstByte(made.lease))
    assert run.target(3, made.target).stream_latency_s == 1
    run.send(7, Finish(made.lease, Outcome.SUCCESS))
    assert run.facts[0] == AttemptEnded(made.target, Outcome.SUCCESS, Cause.NONE, 5)


def test_a_later_key_tells_of_a_target_that_was_benched_before_it_was_sent() -> None:
    run = Run()
    made = run.ask(0)
    for at_s in (1, 2, 3):
        other = run.ask(at_s)
        run.send(at_s, Finish(other.lease, Outcome.FAULT))
    assert run.target(3).is_cooling
    run.send(4, KeyFailed(made.lease, made.keys[1], Outcome.RATE))
    run.send(5, Finish(made.lease, Outcome.SUCCESS))
    assert not run.target(5).is_cooling


def test_keys_are_shared_by_the_targets_of_a_provider_but_each_target_is_judged_by_its_own_attempts() -> None:
    run = Run()
    run.refuse_all(0)
    assert [run.target(1, TargetId(name)).is_cooling for name in ("p/m", "p/n")] == [True, False]
    assert len(run.ask(1, "p/n").keys) == 1
    assert run.ask(1, "p/n").keys == run.ask(1, "p/m").keys


def test_a_target_is_not_blamed_for_a_key_while_another_has_come_back() -> None:
    run = Run()
    first = run.ask(0)
    assert first.keys == (0, 1)
    run.send(0, KeyFailed(first.lease, 1, Outcome.RATE))
    run.send(0, Finish(first.lease, Outcome.SUCCESS))
    late = run.ask(29)
    assert late.keys == (1,)
    run.send(31, Finish(late.lease, Outcome.RATE))
    assert not run.target(31).is_cooling
    assert run.keys(31) == [Standing.PROBATION, Standing.COOLING]


def test_the_reason_shown_is_that_of_the_key_that_is_waited_for() -> None:
    run = Run()
    made = run.ask(0)
    run.send(0, KeyFailed(made.lease, 1, Outcome.RATE))
    run.send(0, Finish(made.lease, Outcome.AUTH))
    assert [fact for fact in run.facts if isinstance(fact, CooldownStarted)] == [CooldownStarted(TARGET, Outcome.AUTH, 30, 30)]
    assert run.target(1).cooldown_reason is Outcome.RATE
    assert run.ask(1).keys == (0,)


def test_a_cooldown_of_the_target_itself_is_not_shortened_by_a_key() -> None:
    run = Run(policy(base_s=100))
    for _ in range(3):
        made = run.ask(0)
        run.send(0, Finish(made.lease, Outcome.FAULT, retry_after_s=200))
    assert run.target(0).cooldown_left_s == 200
    run.refuse_all(10)
    row = run.target(10)
    assert (row.cooldown_left_s, row.cooldown_reason) == (190, Outcome.FAULT)
    assert [key.cooldown_left_s for key in run.shown(10).keys] == [100, 100]


def test_a_reload_keeps_keys_unless_the_provider_changed() -> None:
    run = Run()
    run.refuse_all(0)
    run.send(1, ReplacePolicy(policy()))
    assert run.keys(1) == [Standing.COOLING] * 2
    run.send(1, ReplacePolicy(policy(3, fingerprint="2")))
    assert run.keys(1) == [Standing.WELL] * 3


def test_attempts_with_a_key_that_was_forgotten_say_nothing_about_the_fresh_one() -> None:
    run = Run()
    before = run.ask(0)
    run.send(0, KeyFailed(before.lease, 1, Outcome.RATE))
    run.send(1, ReplacePolicy(policy(fingerprint="2")))
    run.send(1, FirstByte(before.lease, is_content=False))
    run.send(2, Finish(before.lease, Outcome.RATE))
    assert run.keys(2) == [Standing.WELL] * 2
    assert [row.in_flight for row in run.shown(2).keys] == [0, 0]


def test_a_further_key_that_a_reload_took_away_is_not_counted() -> None:
    run = Run(policy(3))
    made = run.ask(0)
    run.send(1, ReplacePolicy(policy(1)))
    run.send(2, KeyFailed(made.lease, 2, Outcome.RATE))
    assert run.shown(2).keys == ()
    run.send(3, Finish(made.lease, Outcome.SUCCESS))
    assert run.shown(3).open_leases == 0


def test_a_failed_key_of_a_lease_that_is_closed_says_nothing() -> None:
    run = Run()
    made = run.ask(0)
    run.send(1, Finish(made.lease, Outcome.CLIENT))
    run.send(2, KeyFailed(made.lease, 1, Outcome.RATE))
    assert run.facts == ()
    assert run.keys(2) == [Standing.WELL] * 2


def test_a_reset_of_a_target_forgets_the_keys_of_its_provider() -> None:
    run = Run()
    run.refuse_all(0, Outcome.AUTH)
    assert run.send(1, ResetTarget(TargetId("p/unheard-of"))) is False
    assert run.keys(1) == [Standing.COOLING] * 2
    assert run.send(1, ResetTarget(TargetId("p/n"))) is True
    assert run.keys(1) == [Standing.WELL] * 2


def test_a_retry_does_not_bench_the_key_that_its_request_benched() -> None:
    run = Run()
    run.refuse_all(0)
    again = run.ask(31, again=TARGET)
    run.send(32, Finish(again.lease, Outcome.RATE))
    assert [(row.streak, row.cooldown_left_s) for row in run.shown(32).keys] == [(1, 0), (1, 0)]


def test_where_health_is_off_keys_are_used_as_they_stand() -> None:
    run = Run(policy(is_health_enabled=False))
    run.refuse_all(0)
    assert sorted(run.ask(1).keys) == [0, 1]


def test_keys_are_shown_by_index_for_providers_that_have_several() -> None:
    run = Run()
    assert run.shown(0).keys == (
        KeyState("p", 0, 0, Standing.WELL, 0.0, None, 0),
        KeyState("p", 1, 0, Standing.WELL, 0.0, None, 0),
    )
    made = run.ask(0)
    run.send(0, KeyFailed(made.lease, 1, Outcome.RATE))
    assert run.shown(1).keys == (
        KeyState("p", 0, 0, Standing.COOLING, 29.0, Outcome.RATE, 1),
        KeyState("p", 1, 1, Standing.WELL, 0.0, None, 0),
    )
    assert Run(policy(1)).shown(0).keys == ()
